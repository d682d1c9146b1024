"""Figures of records made by hand, with answers worked out by hand."""

import math

import pytest
from builders import make_failure, make_record, make_round, make_series

from tare.records.figures import (
    device_peak,
    device_time,
    gross,
    host_peak,
    latency,
    preparation,
    round_median,
    throttled_share,
)
from tare.records.record import DeviceMemory, HostMemory, Round


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
