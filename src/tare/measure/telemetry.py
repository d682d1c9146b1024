"""Watching the machine during a round, from the parent process: nothing here runs in the measured one."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, TypeVar

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

ReadGpu = Callable[[], GpuReading]
Timed = TypeVar("Timed", bound=tuple[Any, ...])


class Reading(NamedTuple):
    at_ns: int
    gpu: GpuReading | None


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


def cpu_seconds(pid: int) -> float | None:
    """CPU time of a process and of this one; None where the process has ended."""
    with contextlib.suppress(psutil.Error):
        processes = (psutil.Process(pid), psutil.Process())
        return sum(sum(process.cpu_times()[:2]) for process in processes)
    return None


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
    processes = gpu.read().processes if gpu else None
    count = len(processes) if processes else None
    return busy_reasons(shares.others, shares.steal, count) if shares else busy_reasons(None, None, count)


class Watch:
    """Takes a reading whenever `poll` is called and the period has passed; the parent's loop calls it."""

    def __init__(
        self,
        read_gpu: ReadGpu | None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        read_memory: Callable[[], int | None] = lambda: None,
        read_host: Callable[[], int | None] = lambda: None,
        read_own_cpu: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._read_gpu = read_gpu
        self._now_ns = now_ns
        self._read_memory = read_memory
        self._read_host = read_host
        self._read_own_cpu = read_own_cpu
        self._next_ns = 0
        self.readings: list[Reading] = []
        # (time, host memory, device memory), None where they cannot be read.
        self._memory: list[tuple[int, int | None, int | None]] = []
        # The peak that NVML attributes to the worker, for workers that cannot ask NVML themselves.
        self.memory_peak: int | None = None
        self._cpu: list[tuple[int, CpuReading]] = []

    def poll(self) -> None:
        now = self._now_ns()
        if now < self._next_ns:
            return
        self._next_ns = now + int(PERIOD_S * 1e9)
        self.readings.append(Reading(now, self._read_gpu() if self._read_gpu else None))
        used = self._read_memory()
        if used is not None:
            self.memory_peak = max(used, self.memory_peak or 0)
        self._memory.append((now, self._read_host(), used))
        own_s = self._read_own_cpu()
        if own_s is None:
            # A process that has ended keeps its last known time.
            own_s = self._cpu[-1][1].own if self._cpu else 0.0
        self._cpu.append((now, read_cpu(own_s)))

    def memory_trace(self, series: list[Series]) -> MemoryTrace | None:
        """The worker's memory while its steps were sampled; None where it could not be read."""
        inside = [(at, host, device) for at, host, device in _while_sampling(self._memory, series) if host]
        if not inside:
            return None
        device = [device for _, _, device in inside if device is not None]
        return MemoryTrace(
            at_ns=[at for at, _, _ in inside],
            host=[host for _, host, _ in inside if host],
            device=device if len(device) == len(inside) else None,
        )

    def summary(self, done: Round, ours: Collection[int]) -> Telemetry:
        """The readings as a record keeps them: `cpu_load` over the whole round, the rest while steps were sampled.
        `ours` are the processes of this run."""
        gpu = [reading.gpu for reading in _while_sampling(self.readings, done.series) if reading.gpu]
        shares = _shares(_while_sampling(self._cpu, done.series), SHORTEST_S)
        whole = _shares(self._cpu, 0.0)
        return Telemetry(
            samples=len(self.readings),
            sm_clock_mhz=_spread([g.sm_clock_mhz for g in gpu]),
            temperature_c=_spread([g.temperature_c for g in gpu]),
            power_w=_spread([g.power_w for g in gpu]),
            utilisation=_spread([g.utilisation for g in gpu]),
            energy_j_per_step=_energy(self.readings, done.series),
            throttle_reasons=sorted({reason for g in gpu for reason in g.throttle or ()}),
            other_gpu_processes=max(
                (len(set(g.processes).difference(ours)) for g in gpu if g.processes is not None), default=None
            ),
            cpu_load=whole.busy if whole else None,
            cpu_other_load=shares.others if shares else None,
            cpu_steal=shares.steal if shares else None,
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


def _while_sampling(readings: Iterable[Timed], series: list[Series]) -> list[Timed]:
    """The readings, whose first field is their time, that were taken during the timed series."""
    spans = [(s.at_ns[0], s.at_ns[-1] + s.wall_ns[-1]) for s in series if s.kind != "warmup" and s.at_ns]
    return [reading for reading in readings if any(start <= reading[0] <= end for start, end in spans)]


def _shares(readings: list[tuple[int, CpuReading]], shortest_s: float) -> CpuShares | None:
    if len(readings) < 2 or readings[-1][0] - readings[0][0] < shortest_s * 1e9:
        return None
    return cpu_shares(readings[0][1], readings[-1][1])


def _spread(values: list[float | None]) -> list[float] | None:
    """Minimum, median and maximum of the readings; None where there were none."""
    known = sorted(v for v in values if v is not None)
    return [known[0], known[len(known) // 2], known[-1]] if known else None


def _energy(readings: list[Reading], series: list[Series]) -> float | None:
    """Joules of one pipelined step by the energy counter; None with fewer than three readings in that series."""
    pipelined = next((s for s in series if s.kind == "pipelined" and s.at_ns), None)
    if pipelined is None:
        return None
    begin, end = pipelined.at_ns[0], pipelined.at_ns[-1] + pipelined.wall_ns[-1]
    inside = [
        (r.at_ns, r.gpu.energy_j)
        for r in readings
        if r.gpu and r.gpu.energy_j is not None and begin <= r.at_ns <= end
    ]
    if len(inside) < 3:
        return None
    (first_ns, first_j), (last_ns, last_j) = inside[0], inside[-1]
    watts = (last_j - first_j) / ((last_ns - first_ns) / 1e9)
    return watts * (end - begin) / 1e9 / sum(pipelined.steps)
