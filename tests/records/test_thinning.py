"""Old records keep few samples and all of their figures."""

import random
from statistics import median

import msgspec
import pytest
from builders import make_case, make_record, make_round, make_series
from hypothesis import given
from hypothesis import strategies as st

from tare.guard.metrics import get_metric, values
from tare.records.figures import gross, latency, spread_within_rounds, throttled_share
from tare.records.record import MemoryTrace, Record, Series
from tare.records.thinning import thin


def noisy_series(kind: str, blocks: int, seed: int) -> Series:
    source = random.Random(seed)
    walls = [round(1e6 * source.lognormvariate(0, 0.2)) for _ in range(blocks)]
    return Series(kind=kind, steps=[1] * blocks, wall_ns=walls, at_ns=list(range(blocks)), stop="width")  # type: ignore[arg-type]


def noisy_record(blocks: int, throttled: int = 0) -> Record:
    rounds = []
    for index in range(3):
        series = [make_series("warmup", 1e-3, blocks=blocks), noisy_series("pipelined", blocks, index),
                  noisy_series("latency", blocks, index + 10)]  # fmt: skip
        marked = {"pipelined": random.Random(index).sample(range(blocks), throttled)} if throttled else {}
        rounds.append(make_round(index, series=series, throttled=marked))
    return make_record(make_case(), rounds=rounds)


@pytest.mark.parametrize("blocks", [1000, 1001])
@pytest.mark.parametrize("throttled", [0, 300])
def test_the_figures_over_rounds_are_exactly_what_they_were(blocks: int, throttled: int) -> None:
    record = noisy_record(blocks, throttled)
    thinned = thin(record)
    assert gross(thinned) == gross(record)
    assert latency(thinned) == latency(record)
    assert values(thinned, get_metric("gross")) == values(record, get_metric("gross"))
    assert spread_within_rounds(thinned) == pytest.approx(spread_within_rounds(record), rel=0.1)
    assert throttled_share(thinned) == pytest.approx(throttled_share(record), abs=0.08)
    before, after = (values(each, get_metric("gross_p5")) for each in (record, thinned))
    assert after == pytest.approx(before, rel=0.05)
    assert len(msgspec.json.encode(thinned)) < len(msgspec.json.encode(record)) / 4


def test_what_is_kept_was_measured_and_says_how_much_there_was() -> None:
    record = noisy_record(1000)
    before, after = (each.rounds[0].find("pipelined") for each in (record, thin(record)))
    assert before is not None
    assert after is not None
    assert after.blocks == 1000
    assert set(zip(after.at_ns, after.wall_ns, strict=True)) <= set(zip(before.at_ns, before.wall_ns, strict=True))
    assert after.at_ns == sorted(after.at_ns)
    assert (min(after.wall_ns), max(after.wall_ns)) == (min(before.wall_ns), max(before.wall_ns))


def test_thinning_twice_is_thinning_once() -> None:
    once = thin(noisy_record(1000, throttled=100))
    assert thin(once) is once


def test_a_small_record_stays_as_it_is() -> None:
    record = make_record()
    assert thin(record) is record


def test_memory_over_time_keeps_its_ends() -> None:
    trace = MemoryTrace(at_ns=list(range(5000)), host=list(range(5000)))
    record = make_record(make_case(), rounds=[make_round(0, memory_trace=trace)])
    kept = thin(record).rounds[0].memory_trace
    assert kept is not None
    assert (len(kept.host), kept.host[0], kept.host[-1]) == (101, 0, 4999)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=600))
def test_the_median_is_kept_whatever_the_samples_are(walls: list[int]) -> None:
    count = len(walls)
    series = Series(kind="pipelined", steps=[1] * count, wall_ns=walls, at_ns=[0] * count, stop="width")
    record = make_record(make_case(), rounds=[make_round(0, series=[series])])
    kept = thin(record).rounds[0].find("pipelined")
    assert kept is not None
    assert median(kept.wall_ns) == median(walls)
