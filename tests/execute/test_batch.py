"""The search for a batch on throughputs written by hand: where it stops, and what it chooses."""

from collections.abc import Callable

import pytest
from builders import make_case, make_failure, make_record, make_round
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batch_search import (
    LARGEST,
    choose_searching_case,
    find_earlier_search,
    search_batch,
    search_options,
)
from tare.records.figures import throughput
from tare.records.record import BatchSearch, Cause, Round

Curve = Callable[[int], float | Cause]


def search(curve: Curve) -> BatchSearch:
    """`curve` gives a batch's items a second, or the cause of its failure."""

    def measure(case: Case) -> Round:
        rate = curve(case.batch)
        if isinstance(rate, str):
            return make_round(0, series=[], failure=make_failure(cause=rate))
        return make_round(0, case.batch / rate)

    return search_batch(make_case(batch=1), measure)


def tried(found: BatchSearch) -> list[int]:
    return [point.batch for point in found.points]


def test_it_doubles_until_throughput_stops_rising() -> None:
    found = search(lambda batch: 1e6 * min(batch, 16))
    assert tried(found) == [1, 2, 4, 8, 16, 32, 64]
    assert (found.chosen, found.stop) == (16, "throughput")
    assert [throughput(point) for point in found.points][:3] == pytest.approx([1e6, 2e6, 4e6])


def test_one_bad_size_does_not_end_it() -> None:
    found = search(lambda batch: 1e6 * (3 if batch == 8 else min(batch, 64)))
    assert (found.chosen, found.stop) == (64, "throughput")


@pytest.mark.parametrize("cause", ["device-oom", "host-oom"])
def test_memory_ends_it_and_is_no_failure(cause: Cause) -> None:
    found = search(lambda batch: cause if batch > 8 else 1e6 * batch)
    assert tried(found) == [1, 2, 4, 8, 16]
    assert (found.chosen, found.stop) == (8, "memory")
    assert found.points[-1].round.failure is not None
    assert throughput(found.points[-1]) is None


def test_where_nothing_else_ends_it_the_largest_does() -> None:
    found = search(lambda batch: 1e9 * batch)
    assert (found.chosen, found.stop) == (LARGEST, "largest")


def test_another_failure_after_success_ends_it_too() -> None:
    found = search(lambda batch: "exception" if batch > 4 else 1e6 * batch)
    assert (found.chosen, found.stop) == (4, "failure")


def test_a_batch_of_one_may_fail() -> None:
    found = search(lambda batch: "exception" if batch == 1 else 1e6 * min(batch, 4))
    assert (found.chosen, found.stop) == (4, "throughput")


@pytest.mark.parametrize(("cause", "points", "stop"), [("exception", 3, "failure"), ("device-oom", 1, "memory")])
def test_where_nothing_works_the_batch_is_one(cause: Cause, points: int, stop: str) -> None:
    found = search(lambda _: cause)
    assert (len(found.points), found.chosen, found.stop) == (points, 1, stop)


def test_a_step_that_takes_too_long_ends_it() -> None:
    found = search(lambda batch: 3.0 * batch**0.5)
    assert found.stop == "time"
    # A step of batch b takes sqrt(b) / 3 s: 64 is the first over two seconds.
    assert found.points[-1].batch == 64


def test_the_smallest_of_equals_is_chosen() -> None:
    found = search(lambda batch: 1e6 * {1: 1.0, 2: 2.0, 4: 2.01, 8: 2.02}.get(batch, 2.0))
    assert found.chosen == 2


@settings(max_examples=50)
@given(st.lists(st.floats(1e4, 1e7), min_size=1, max_size=12), st.sampled_from(["device-oom", "exception"]))
def test_the_choice_is_never_far_from_the_best_tried(rates: list[float], cause: Cause) -> None:
    found = search(lambda batch: rates[k] if (k := batch.bit_length() - 1) < len(rates) else cause)
    seen = {point.batch: rate for point in found.points if (rate := throughput(point))}
    assert seen[found.chosen] >= max(seen.values()) / 1.031
    assert tried(found) == [2**k for k in range(len(found.points))]


def test_eager_searches_for_its_ladder() -> None:
    ladder = [make_case(rung=rung) for rung in ("compile", "eager")]
    assert choose_searching_case(ladder).rung == "eager"
    assert choose_searching_case(ladder[:1]).rung == "compile"


def test_points_are_short_and_prove_nothing() -> None:
    options = search_options(Options(rounds=3, budget=12.0))
    assert (options.rounds, options.budget, options.parity) == (1, 2.0, False)
    assert search_options(Options(rounds=1, budget=0.5)).budget == 0.5


def test_a_resumed_run_finds_its_search_again() -> None:
    done = search(lambda batch: 1e6 * min(batch, 16))
    records = [make_record(make_case(batch=16, rung="compile")), make_record(make_case(batch=16), search=done)]
    assert find_earlier_search(make_case(batch=1, rung="compile"), records) == done
    assert find_earlier_search(make_case(batch=1, mode="train"), records) is None
