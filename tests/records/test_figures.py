"""Figures of records made by hand, with answers worked out by hand."""

import math

import numpy as np
import pytest
from builders import make_case, make_failure, make_record, make_round, make_series
from hypothesis import given
from hypothesis import strategies as st

from tare.records.figures import (
    device_peak,
    device_time,
    gross,
    host_peak,
    latency,
    latency_percentile,
    preparation,
    round_median,
    samples_per_second,
    spread_within_rounds,
    throttled_share,
    tokens_per_second,
)
from tare.records.record import DeviceMemory, HostMemory, Record, Round


def host(peak: int) -> HostMemory:
    return HostMemory(peak=peak, prepare_peak=10 * peak, start=1, method="VmHWM")


def mixed(slow: int, fast: int = 5, marked: bool = True) -> Round:
    """`fast` blocks of 1 ms a step, and `slow` ones of 3 ms that were throttled; half of it on the device."""
    walls = [1_000_000] * fast + [3_000_000] * slow
    halves = [wall // 2 for wall in walls]
    series = make_series("pipelined", 1e-3, blocks=fast + slow, steps=1, wall_ns=walls, device_ns=halves)
    return make_round(series=[series], throttled={"pipelined": list(range(fast, fast + slow))} if marked else {})


def test_gross_is_the_median_of_the_rounds_medians_not_of_the_pooled_samples() -> None:
    rounds = [
        make_round(0, series=[make_series("pipelined", 1e-3, blocks=100)]),
        make_round(1, series=[make_series("pipelined", 2e-3, blocks=10)]),
        make_round(2, series=[make_series("pipelined", 4e-3, blocks=10)]),
    ]
    found = gross(make_record(rounds=rounds))
    assert found is not None
    assert found.mid == pytest.approx(2e-3)
    assert found.sound


def test_gross_has_a_student_interval_of_the_logarithms() -> None:
    """Logs at -d, 0, +d: their deviation is d, and t(0.975; 2) is 4.302653."""
    spread = 0.01
    found = gross(make_record(steps_s=[1e-3 * math.exp(d) for d in (spread, 0, -spread)]))
    assert found is not None
    half = 4.302653 * spread / math.sqrt(3)
    assert tuple(found[:3]) == pytest.approx([1e-3 * math.exp(d) for d in (-half, 0, half)], rel=1e-6)
    assert found.sound


def test_a_step_is_its_share_of_the_block() -> None:
    uneven = make_series(
        "pipelined", 1e-3, blocks=3, wall_ns=[2_000, 9_000, 40_000], device_ns=[1_000, 3_000, 20_000]
    )
    assert uneven.step_seconds() == pytest.approx([0.5e-6, 2.25e-6, 10e-6])
    assert uneven.device_step_seconds() == pytest.approx([0.25e-6, 0.75e-6, 5e-6])


def test_latency_has_a_series_of_its_own() -> None:
    found = latency(make_record(steps_s=(1e-3, 1e-3)))
    assert found is not None
    assert found.mid == pytest.approx(1.25e-3)
    assert latency(make_record(rounds=[make_round(series=[make_series("pipelined", 1e-3)])])) is None


def test_one_round_knows_nothing_of_the_noise_between_processes() -> None:
    found = gross(make_record(steps_s=[1e-3]))
    assert found is not None
    assert found.mid == pytest.approx(1e-3)
    assert not found.sound
    assert found.width == math.inf


def test_failed_rounds_do_not_count() -> None:
    failed = make_round(1, 9e-3, failure=make_failure(), prepare_s=99.0, host_memory=host(999))
    record = make_record(rounds=[make_round(0, 1e-3, host_memory=host(5)), failed, make_round(2, 1e-3)])
    found = gross(record)
    assert found is not None
    assert found.mid == pytest.approx(1e-3)
    assert found.sound, "two rounds are left"
    assert preparation(record) == (0.2, None)
    assert host_peak(record) == 5


def test_a_record_without_a_good_round_has_no_figures() -> None:
    for record in (make_record(rounds=[]), make_record(rounds=[make_round(failure=make_failure())])):
        assert gross(record) is None
        assert latency(record) is None
        assert device_time(record) is None
        assert preparation(record) == (None, None)
        assert host_peak(record) is None
        assert device_peak(record) is None
        assert throttled_share(record) == 0.0


def test_throttled_blocks_are_left_out() -> None:
    for marked, expected in ((True, 1e-3), (False, 3e-3)):
        found = round_median(mixed(slow=6, marked=marked), "pipelined")
        assert found is not None
        assert found.mid == pytest.approx(expected)
    assert throttled_share(make_record(rounds=[mixed(slow=5), mixed(slow=5, marked=False)])) == 0.25


def test_the_devices_time_is_of_the_same_blocks_as_gross() -> None:
    for done in (mixed(slow=6), mixed(slow=6, marked=False), mixed(slow=6, fast=4)):
        step = gross(make_record(rounds=[done]))
        assert step is not None
        assert device_time(make_record(rounds=[done])) == pytest.approx(step.mid / 2)


def test_too_few_clean_blocks_keep_the_throttled_ones() -> None:
    found = round_median(mixed(slow=6, fast=4), "pipelined")
    assert found is not None
    assert found.mid == pytest.approx(3e-3)


def test_marks_of_one_series_leave_another_alone() -> None:
    done = make_round(throttled={"latency": list(range(10))})
    assert throttled_share(make_record(rounds=[done])) == 0.0


def test_an_empty_series_has_no_median() -> None:
    assert round_median(make_round(series=[make_series("pipelined", 1e-3, blocks=0)]), "pipelined") is None
    assert round_median(make_round(series=[]), "pipelined") is None


def test_device_time_is_the_median_of_rounds_medians() -> None:
    rounds = [
        make_round(i, series=[make_series("pipelined", 1e-3, blocks=3, steps=2, device_ns=device)])
        for i, device in enumerate(([2_000, 4_000, 90_000], [8_000, 8_000, 8_000], [6_000, 1_000, 6_000]))
    ]
    assert device_time(make_record(rounds=rounds)) == pytest.approx(3e-6)
    assert device_time(make_record()) is None


def test_preparation_is_cold_and_warm() -> None:
    rounds = [
        make_round(0, cache="cold", prepare_s=60.0),
        make_round(1, cache="warm", prepare_s=4.0),
        make_round(2, cache="warm", prepare_s=2.0),
        make_round(3, cache="warm", prepare_s=None),
    ]
    assert preparation(make_record(rounds=rounds)) == (60.0, 3.0)
    without = [make_round(i, cache="none", prepare_s=s) for i, s in enumerate((3.0, 1.0, 2.0))]
    assert preparation(make_record(rounds=without)) == (2.0, None)


def test_memory_is_the_largest_peak_of_any_round() -> None:
    rounds = [
        make_round(0, host_memory=host(7), device_memory=DeviceMemory(allocated_peak=99, reserved_peak=30)),
        make_round(1, host_memory=host(9), device_memory=DeviceMemory(allocated_peak=99)),
        make_round(2),
    ]
    assert host_peak(make_record(rounds=rounds)) == 9
    assert device_peak(make_record(rounds=rounds)) == 30


def test_throughput_is_the_batch_over_gross() -> None:
    """A batch of 32 in 2 ms; the bounds change places, since the slowest step gives the lowest throughput."""
    record = make_record(steps_s=[1.98e-3, 2e-3, 2.02e-3], tokens_per_step=32 * 100)
    step, samples, tokens = gross(record), samples_per_second(record), tokens_per_second(record)
    assert step is not None
    assert samples is not None
    assert tokens is not None
    assert samples.mid == pytest.approx(16_000)
    assert tuple(samples[:3]) == pytest.approx([32 / step.high, 32 / step.mid, 32 / step.low])
    assert samples.low < samples.mid < samples.high
    assert samples.sound
    assert tuple(tokens[:3]) == pytest.approx([100 * value for value in samples[:3]])


def test_throughput_of_one_round_has_no_sound_interval_and_a_failed_case_has_none() -> None:
    alone = samples_per_second(make_record(steps_s=[2e-3]))
    assert alone is not None
    assert not alone.sound
    failed = make_record(rounds=[make_round(failure=make_failure())], tokens_per_step=8)
    assert samples_per_second(failed) is tokens_per_second(failed) is None
    # A clock that does not resolve the step gives zero seconds.
    assert samples_per_second(make_record(rounds=[make_round(series=[make_series("pipelined", 0.0)])])) is None


def test_tokens_are_counted_only_where_the_workload_says_what_a_token_is() -> None:
    assert tokens_per_second(make_record(make_case(sizes={"length": 128}))) is None


def with_latencies(*rounds: list[int]) -> Record:
    """A record whose rounds have these synchronised steps, in nanoseconds."""
    return make_record(
        rounds=[
            make_round(i, series=[make_series("latency", 0, blocks=len(walls), steps=1, wall_ns=walls)])
            for i, walls in enumerate(rounds)
        ]
    )


def test_percentiles_of_latency_are_of_the_steps_of_all_rounds() -> None:
    """Of the numbers 0 to 100, percentile p is p."""
    record = with_latencies(list(range(1, 101, 2)), list(range(0, 101, 2)))
    for percent in (50, 95, 99):
        assert latency_percentile(record, percent) == pytest.approx(percent * 1e-9)


def test_a_percentile_needs_as_many_steps_as_it_divides() -> None:
    assert latency_percentile(with_latencies([1]), 50) is None
    assert latency_percentile(with_latencies([1, 3]), 50) == pytest.approx(2e-9)
    for percent, fewest in ((95, 20), (99, 100)):
        assert latency_percentile(with_latencies([7] * (fewest - 1)), percent) is None
        assert latency_percentile(with_latencies([7] * fewest), percent) == pytest.approx(7e-9)
    assert latency_percentile(make_record(rounds=[make_round(series=[])]), 50) is None


@given(st.lists(st.integers(0, 10**12), min_size=100, max_size=200), st.integers(1, 99))
def test_percentiles_are_those_of_numpy(walls: list[int], percent: int) -> None:
    found = latency_percentile(with_latencies(walls), percent)
    assert found == pytest.approx(np.percentile(walls, percent) / 1e9, rel=1e-9, abs=1e-15)


def test_throttled_steps_and_failed_rounds_are_in_no_percentile() -> None:
    series = make_series("latency", 0, blocks=8, steps=1, wall_ns=[5] * 6 + [900, 900])
    record = make_record(
        rounds=[
            make_round(0, series=[series], throttled={"latency": [6, 7]}),
            make_round(1, series=[make_series("latency", 1e-3)], failure=make_failure()),
        ]
    )
    assert latency_percentile(record, 50) == pytest.approx(5e-9)
    assert latency_percentile(with_latencies([5] * 6 + [900] * 14), 95) == pytest.approx(900e-9)


def test_spread_is_the_interquartile_range_over_the_median_in_the_worst_round() -> None:
    """The quartiles of 1 to 7 are 2 and 6, the median is 4."""
    calm = make_round(0, series=[make_series("pipelined", 1e-6, blocks=7, steps=1)])
    wide = make_series("pipelined", 0, blocks=7, steps=1, wall_ns=[7, 1, 6, 2, 5, 3, 4])
    record = make_record(rounds=[calm, make_round(1, series=[wide])])
    assert spread_within_rounds(record) == pytest.approx((6 - 2) / 4)
