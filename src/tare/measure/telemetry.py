"""Watching the machine during a round, from the parent process: nothing here runs in the measured one."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import psutil

from tare.measure.nvml import Gpu, GpuReading
from tare.records.record import MemoryTrace, Round, Series, SeriesKind, Telemetry

# A reading takes well under a millisecond; ten a second see every throttling of interest.
PERIOD_S = 0.1
# The kernel counts CPU time in ticks of 10 ms: shares of a shorter time would be mostly rounding.
SHORTEST_S = 0.25

# A machine is busy where other processes use more than this share of its cores, or so much of their time is
# stolen.
BUSY_LOAD, BUSY_STEAL = 0.10, 0.02
# How long the machine is observed before something is measured.
OBSERVED_S = 0.5


class CpuReading(NamedTuple):
    """Seconds of all the machine's cores so far, and those of them in the measured process and in tare."""

    total: float
    idle: float
    steal: float
    own: float = 0.0


def read_cpu(own_s: float = 0.0) -> CpuReading:
    times = psutil.cpu_times()
    # Guest time is part of user time already.
    counted = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    total = sum(getattr(times, name, 0.0) for name in counted)
    idle = times.idle + getattr(times, "iowait", 0.0)
    return CpuReading(total, idle, getattr(times, "steal", 0.0), own_s)


def tree_cpu_s(root: psutil.Process) -> float:
    """The CPU time of a process and of all below it, with those that have ended and were waited for."""
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            # User and system time, its own and that of its children.
            total += sum(process.cpu_times()[:4])
    return total


class CpuShares(NamedTuple):
    """Shares of the machine's cores between two readings: busy at all, busy for other processes, stolen."""

    busy: float
    others: float
    steal: float


def cpu_shares(before: CpuReading, after: CpuReading) -> CpuShares | None:
    """None where the machine does not count its CPU time."""
    total = after.total - before.total
    if total <= 0:
        return None
    steal, own = after.steal - before.steal, after.own - before.own
    unused = after.idle - before.idle + steal
    return CpuShares(*(min(max(part / total, 0.0), 1.0) for part in (total - unused, total - unused - own, steal)))


def busy_reasons(other_load: float | None, steal: float | None, other_gpu_processes: int | None) -> list[str]:
    """What makes a machine too busy to measure on; empty for a quiet one."""
    reasons = []
    if other_load is not None and other_load > BUSY_LOAD:
        reasons.append(f"other processes used {other_load:.0%} of its cores")
    if steal is not None and steal > BUSY_STEAL:
        reasons.append(f"the hypervisor took {steal:.0%} of its CPU time")
    if other_gpu_processes:
        processes = "process" if other_gpu_processes == 1 else "processes"
        reasons.append(f"{other_gpu_processes} other {processes} on the GPU")
    return reasons


def busy_now(gpu: Gpu | None) -> list[str]:
    """Observes the machine for a moment in which nothing of ours runs."""
    before = read_cpu()
    time.sleep(OBSERVED_S)
    shares = cpu_shares(before, read_cpu())
    processes = len(gpu.processes() or ()) if gpu else None
    return busy_reasons(shares and shares.others, shares and shares.steal, processes)


class Reading(NamedTuple):
    """The machine and the worker at one moment; None for what cannot be read."""

    at_ns: int
    gpu: GpuReading | None = None
    cpu: CpuReading | None = None
    host_bytes: int | None = None


class Watch:
    """Reads the machine and one worker whenever the parent's loop calls `poll` and the period has passed. With
    `whole_tree`, the CPU time of the worker includes that of all processes below it."""

    def __init__(
        self, gpu: Gpu | None, now_ns: Callable[[], int] = time.perf_counter_ns, whole_tree: bool = False
    ) -> None:
        self._gpu, self._whole_tree = gpu, whole_tree
        self._now_ns = now_ns
        self._next_ns = 0
        self._own_cpu_s = 0.0
        # The worker, as soon as it has started.
        self.pid = 0
        self.readings: list[Reading] = []

    def start(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> None:
        now = self._now_ns()
        if now < self._next_ns:
            return
        self._next_ns = now + int(PERIOD_S * 1e9)
        host_bytes = None
        # A worker that has ended keeps its last known CPU time.
        with contextlib.suppress(psutil.Error):
            worker = psutil.Process(self.pid)
            host_bytes = int(worker.memory_info().rss)
            below_s = tree_cpu_s(worker) if self._whole_tree else sum(worker.cpu_times()[:2])
            self._own_cpu_s = below_s + sum(psutil.Process().cpu_times()[:2])
        gpu = self._gpu.read() if self._gpu else None
        self.readings.append(Reading(now, gpu, read_cpu(self._own_cpu_s), host_bytes))

    @property
    def device_peak(self) -> int | None:
        """The most memory that NVML attributed to the worker, for workers that cannot ask NVML themselves."""
        return max(filter(None, map(self._device_bytes, self.readings)), default=None)

    def _device_bytes(self, reading: Reading) -> int | None:
        return ((reading.gpu and reading.gpu.processes) or {}).get(self.pid)

    def memory_trace(self, series: list[Series]) -> MemoryTrace | None:
        """The worker's memory while its steps were sampled; None where it could not be read."""
        readings = [reading for reading in _during(self.readings, _timed(series)) if reading.host_bytes]
        if not readings:
            return None
        device = [used for reading in readings if (used := self._device_bytes(reading)) is not None]
        return MemoryTrace(
            at_ns=[reading.at_ns for reading in readings],
            host=[reading.host_bytes or 0 for reading in readings],
            device=device if len(device) == len(readings) else None,
        )

    def summary(self, done: Round, ours: Collection[int]) -> Telemetry:
        """The readings as a record keeps them: `cpu_load` over the whole round, the rest while steps were sampled.
        `ours` are the processes of this run."""
        sampled = _during(self.readings, _timed(done.series))
        gpu = [reading.gpu for reading in sampled if reading.gpu]
        others = [len(g.processes.keys() - set(ours)) for g in gpu if g.processes is not None]
        shares, whole = _shares(sampled, SHORTEST_S), _shares(self.readings, 0.0)
        return Telemetry(
            samples=len(self.readings),
            sm_clock_mhz=_spread(g.sm_clock_mhz for g in gpu),
            temperature_c=_spread(g.temperature_c for g in gpu),
            power_w=_spread(g.power_w for g in gpu),
            utilisation=_spread(g.utilisation for g in gpu),
            energy_j_per_step=_energy(self.readings, done.series),
            throttle_reasons=sorted({reason for g in gpu for reason in g.throttle or ()}),
            other_gpu_processes=max(others, default=None),
            cpu_load=whole and whole.busy,
            cpu_other_load=shares and shares.others,
            cpu_steal=shares and shares.steal,
            cpu_pace=done.telemetry.cpu_pace if done.telemetry else None,
        )

    def throttled(self, series: list[Series]) -> dict[SeriesKind, list[int]]:
        """For each series, the blocks that overlap a throttled reading or the period around it."""
        period = int(PERIOD_S * 1e9)
        bad = [(r.at_ns - period, r.at_ns + period) for r in self.readings if r.gpu and r.gpu.throttle]
        marked: dict[SeriesKind, list[int]] = {}
        for each in series:
            blocks = [
                i
                for i, (at, wall) in enumerate(zip(each.at_ns, each.wall_ns, strict=True))
                if any(at < high and at + wall > low for low, high in bad)
            ]
            if blocks:
                marked[each.kind] = blocks
        return marked


def _timed(series: list[Series]) -> list[Series]:
    return [each for each in series if each.kind != "warmup"]


def _during(readings: list[Reading], series: list[Series]) -> list[Reading]:
    """The readings that were taken during any of the series."""
    spans = [(each.at_ns[0], each.at_ns[-1] + each.wall_ns[-1]) for each in series if each.at_ns]
    return [reading for reading in readings if any(start <= reading.at_ns <= end for start, end in spans)]


def _shares(readings: list[Reading], shortest_s: float) -> CpuShares | None:
    known = [(reading.at_ns, reading.cpu) for reading in readings if reading.cpu]
    if len(known) < 2 or known[-1][0] - known[0][0] < shortest_s * 1e9:
        return None
    return cpu_shares(known[0][1], known[-1][1])


def _spread(values: Iterable[float | None]) -> list[float] | None:
    """Minimum, median and maximum of the readings; None where there were none."""
    known = sorted(value for value in values if value is not None)
    return [known[0], known[len(known) // 2], known[-1]] if known else None


def _energy(readings: list[Reading], series: list[Series]) -> float | None:
    """Joules of one pipelined step by the energy counter; None with fewer than three readings in that series."""
    pipelined = [each for each in series if each.kind == "pipelined"]
    counted = [
        (r.at_ns, r.gpu.energy_j) for r in _during(readings, pipelined) if r.gpu and r.gpu.energy_j is not None
    ]
    if len(counted) < 3:
        return None
    (first_ns, first_j), (last_ns, last_j) = counted[0], counted[-1]
    watts = (last_j - first_j) / ((last_ns - first_ns) / 1e9)
    (steps,) = pipelined
    return watts * (steps.at_ns[-1] + steps.wall_ns[-1] - steps.at_ns[0]) / 1e9 / sum(steps.steps)
