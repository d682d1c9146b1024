"""Telemetry from planted readings: what is marked, what energy comes out, what stays absent."""

import subprocess
import sys
from types import SimpleNamespace
from typing import NamedTuple, cast

import psutil
import pytest
from builders import make_record, make_round, make_series

from tare.measure.nvml import Gpu, GpuReading
from tare.measure.telemetry import PERIOD_S, Reading, Watch, busy_reasons, tree_cpu_s
from tare.records.figures import round_median, throttled_share
from tare.records.record import Round, Series, Telemetry

PERIOD_NS = int(PERIOD_S * 1e9)
CALM = GpuReading(1980.0, 60.0, 500.0, 0.9, None, (), {42: None})
SILENT = GpuReading(None, None, None, None, None, None, None)


def make_watch(*readings: tuple[float, GpuReading | None]) -> Watch:
    """A watch that has taken these readings at these seconds."""
    watch = Watch(None, lambda: 0)
    watch.readings = [Reading(round(at_s * 1e9), gpu) for at_s, gpu in readings]
    return watch


def ten_blocks_of_100_ms() -> Series:
    return make_series("pipelined", 0.025, blocks=10, steps=4)


def summary(watch: Watch, *series: Series, pid: int = 42) -> Telemetry:
    return watch.summary(make_round(series=list(series)), [pid])


def test_a_throttled_reading_marks_exactly_the_blocks_around_it() -> None:
    hot = CALM._replace(throttle=("power cap",))
    watch = make_watch((0.05, CALM), (0.45, hot), (0.95, CALM))
    # The reading and a period to either side: 0.35 to 0.55 s touches the blocks that begin at 0.3, 0.4 and 0.5.
    assert watch.throttled([ten_blocks_of_100_ms()]) == {"pipelined": [3, 4, 5]}


def test_a_block_that_only_meets_the_edge_is_not_marked() -> None:
    hot = CALM._replace(throttle=("power cap",))
    assert make_watch((0.4, hot)).throttled([ten_blocks_of_100_ms()]) == {"pipelined": [3, 4]}


def test_the_load_is_what_lay_between_the_readings_of_one_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Times(NamedTuple):
        user: float
        idle: float

    now, times = [0], [Times(100, 900)]
    monkeypatch.setattr("tare.measure.telemetry.psutil.cpu_times", lambda: times[0])
    first, second = (Watch(None, lambda: now[0]) for _ in range(2))
    first.poll()
    assert summary(first).cpu_load is None, "one reading spans no time"
    now[0], times[0] = 10**9, Times(103, 901)
    first.poll()
    second.poll()
    now[0], times[0] = 2 * 10**9, Times(104, 904)
    second.poll()
    assert summary(first).cpu_load == pytest.approx(0.75)
    assert summary(second).cpu_load == pytest.approx(0.25)


def test_series_are_marked_apart_and_only_where_needed() -> None:
    hot = CALM._replace(throttle=("hardware slowdown",))
    warm = make_series("warmup", 0.01, blocks=2, steps=1)
    late = make_series("latency", 0.1, blocks=2, steps=1, at_ns=[5_000_000_000, 5_100_000_000])
    assert make_watch((0.01, hot)).throttled([warm, late]) == {"warmup": [0, 1]}
    assert make_watch((2.0, hot), (5.0, CALM), (5.1, SILENT)).throttled([warm, late]) == {}


def test_figures_leave_the_marked_blocks_out() -> None:
    wall = [100_000_000] * 7 + [900_000_000] * 3
    slow = make_series("pipelined", 0.1, blocks=10, steps=1, wall_ns=wall)
    done = make_round(series=[slow], throttled={"pipelined": [7, 8, 9]})
    kept = round_median(done, "pipelined")
    assert kept is not None
    assert (kept.low, kept.mid, kept.high) == (0.1, 0.1, 0.1)


def test_the_share_under_throttling_is_counted() -> None:
    record = make_record(rounds=[make_round(throttled={"pipelined": [0, 1, 2]}), make_round(1)])
    assert throttled_share(record) == pytest.approx(3 / 20)


def test_energy_of_a_step_comes_from_the_counter() -> None:
    """500 W over a second of 40 steps are 12.5 J a step, whatever the counter said before and after."""
    readings = [(t / 10, CALM._replace(energy_j=1000 + 50.0 * t)) for t in range(1, 10)]
    outside = [(-5.0, CALM._replace(energy_j=0.0)), (7.0, CALM._replace(energy_j=99_999.0))]
    watch = make_watch(outside[0], *readings, outside[1])
    assert summary(watch, ten_blocks_of_100_ms()).energy_j_per_step == pytest.approx(12.5)


def test_energy_is_absent_with_too_few_readings() -> None:
    watch = make_watch((0.2, CALM._replace(energy_j=1.0)), (0.8, CALM._replace(energy_j=300.0)))
    assert summary(watch, ten_blocks_of_100_ms()).energy_j_per_step is None
    assert summary(watch, make_series("warmup", 1.0)).energy_j_per_step is None


def test_spreads_are_least_middle_and_greatest_while_sampling() -> None:
    clocks = (1980.0, 1200.0, 1755.0)
    readings = [(0.1 * (i + 1), CALM._replace(sm_clock_mhz=mhz)) for i, mhz in enumerate(clocks)]
    before = (-1.0, CALM._replace(sm_clock_mhz=345.0))
    found = summary(make_watch(before, *readings), ten_blocks_of_100_ms())
    assert found.sm_clock_mhz == [1200.0, 1755.0, 1980.0]
    assert found.samples == 4


def test_the_warm_up_does_not_count_as_sampling() -> None:
    watch = make_watch((0.1, CALM))
    assert summary(watch, make_series("warmup", 1.0)).sm_clock_mhz is None


@pytest.mark.parametrize("reading", [None, SILENT])
def test_what_was_not_read_is_absent_and_not_zero(reading: GpuReading | None) -> None:
    found = summary(make_watch(*((0.1 * i, reading) for i in range(8))), ten_blocks_of_100_ms())
    assert found.samples == 8
    assert (found.sm_clock_mhz, found.temperature_c, found.power_w, found.utilisation) == (None,) * 4
    assert (found.energy_j_per_step, found.other_gpu_processes, found.throttle_reasons) == (None, None, [])


def test_other_processes_are_those_that_are_not_ours() -> None:
    watch = make_watch((0.1, CALM), (0.2, CALM._replace(processes={7: None, 42: None, 9: None})))
    assert summary(watch, ten_blocks_of_100_ms()).other_gpu_processes == 2
    assert summary(make_watch((0.1, CALM)), ten_blocks_of_100_ms()).other_gpu_processes == 0


def test_reasons_are_named_once() -> None:
    both = CALM._replace(throttle=("sync boost", "power cap"))
    found = summary(make_watch((0.1, both), (0.2, both)), ten_blocks_of_100_ms())
    assert found.throttle_reasons == ["power cap", "sync boost"]


def test_the_pace_that_the_worker_saw_is_kept() -> None:
    done: Round = make_round(telemetry=Telemetry(cpu_pace=0.8))
    assert make_watch().summary(done, [1]).cpu_pace == 0.8


def test_a_reading_is_taken_once_a_period() -> None:
    asked: list[int] = []
    moments = iter(range(0, 3 * PERIOD_NS, PERIOD_NS // 10))
    now = 0

    def tick() -> int:
        nonlocal now
        now = next(moments)
        return now

    class Asked:
        def read(self) -> GpuReading:
            asked.append(now)
            return CALM

    watch = Watch(cast("Gpu", Asked()), tick)
    for _ in range(30):
        watch.poll()
    assert asked == [0, PERIOD_NS, 2 * PERIOD_NS]
    assert [r.at_ns for r in watch.readings] == asked


def test_the_most_memory_seen_from_outside_is_kept() -> None:
    watch = make_watch((0.1, None), (0.2, SILENT))
    watch.pid = 42
    assert watch.device_peak is None
    watch = make_watch(
        *((0.1 * i, CALM._replace(processes={42: used, 7: 99})) for i, used in enumerate((None, 5, 9, 7)))
    )
    watch.pid = 42
    assert watch.device_peak == 9


def test_memory_while_sampling_is_traced() -> None:
    watch = make_watch()
    readings = [Reading(i * PERIOD_NS, CALM._replace(processes={42: 10 + i}), None, 100 + i) for i in range(-1, 3)]
    watch.readings, watch.pid = readings, 42
    trace = watch.memory_trace([ten_blocks_of_100_ms()])
    assert trace is not None
    assert (trace.host, trace.device) == ([100, 101, 102], [10, 11, 12])
    watch.readings = [reading._replace(gpu=SILENT) for reading in readings]
    trace = watch.memory_trace([ten_blocks_of_100_ms()])
    assert trace is not None
    assert trace.device is None


def test_the_load_of_others_excludes_the_measured_process_and_stolen_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores for a second: 1.0 s busy of which 0.4 s our own, 0.1 s stolen, the rest idle."""

    class Times(NamedTuple):
        user: float
        idle: float
        steal: float

    now, times, own = [0], [Times(0, 0, 0)], [7.0]
    monkeypatch.setattr("tare.measure.telemetry.psutil.cpu_times", lambda: times[0])
    worker = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=1), cpu_times=lambda: (own[0] / 2, 0.0))
    monkeypatch.setattr("tare.measure.telemetry.psutil.Process", lambda *_: worker)
    watch = Watch(None, lambda: now[0])
    watch.poll()
    now[0], times[0], own[0] = 10**9, Times(1.0, 0.9, 0.1), 7.4
    watch.poll()
    seen = summary(watch, make_series("pipelined", 0.1, blocks=10, steps=1))
    assert seen.cpu_load == pytest.approx(0.5)
    assert seen.cpu_other_load == pytest.approx(0.3)
    assert seen.cpu_steal == pytest.approx(0.05)
    assert busy_reasons(seen.cpu_other_load, seen.cpu_steal, 2) == [
        "other processes used 30% of its cores",
        "the hypervisor took 5% of its CPU time",
        "2 other processes on the GPU",
    ]
    assert busy_reasons(0.05, 0.01, 0) == []


BUSY_CHILD = """
import os, sys, time
child = os.fork()
if child == 0:
    while time.process_time() < 0.1:
        pass
    os._exit(0)
if sys.argv[1] == "waits":
    os.waitpid(child, 0)
else:
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ending", ["waits", "leaves it"])
def test_the_cpu_time_of_a_tree_includes_children_that_have_ended(ending: str) -> None:
    command = [sys.executable, "-S", "-c", BUSY_CHILD, ending]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        own = psutil.Process(process.pid)
        # The kernel counts in ticks of 10 ms.
        assert tree_cpu_s(own) - sum(own.cpu_times()[:2]) >= 0.08
