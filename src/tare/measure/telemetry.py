"""Watching the machine during a round, from the parent process: nothing here runs in the measured one."""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import psutil

from tare.measure.nvml import GpuReading
from tare.records.record import MemoryTrace, Round, Series, SeriesKind, Telemetry

# psutil and NVML take well under a millisecond; ten readings a second see every throttle of interest.
PERIOD_S = 0.1

ReadGpu = Callable[[], GpuReading]


class Reading(NamedTuple):
    at_ns: int
    gpu: GpuReading | None


class Watch:
    """Takes a reading whenever `poll` is called and the period has passed; the parent's loop calls it."""

    def __init__(
        self,
        read_gpu: ReadGpu | None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        read_memory: Callable[[], int | None] = lambda: None,
        read_host: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._read_gpu = read_gpu
        self._now_ns = now_ns
        self._read_memory = read_memory
        self._read_host = read_host
        # (time, host memory, device memory), as far as they can be read.
        self._held: list[tuple[int, int | None, int | None]] = []
        # The most that NVML was seen to count for the worker: for workers that cannot ask it themselves.
        self.memory_peak: int | None = None
        self._due = 0
        self.readings: list[Reading] = []
        # Seconds of the machine's cores, all in all and idle, at the first reading and at the last.
        self._cores: list[tuple[float, float]] = []

    def poll(self) -> None:
        now = self._now_ns()
        if now >= self._due:
            self._due = now + int(PERIOD_S * 1e9)
            self.readings.append(Reading(now, self._read_gpu() if self._read_gpu else None))
            used = self._read_memory()
            if used is not None:
                self.memory_peak = max(used, self.memory_peak or 0)
            self._held.append((now, self._read_host(), used))
            times = psutil.cpu_times()
            self._cores[1:] = [(sum(times), times.idle + getattr(times, "iowait", 0.0))]

    def memory_trace(self, series: list[Series]) -> MemoryTrace | None:
        """The worker's memory while its steps were sampled; None where it could not be read."""
        spans = [(s.at_ns[0], s.at_ns[-1] + s.wall_ns[-1]) for s in series if s.kind != "warmup" and s.at_ns]
        inside = [(at, h, d) for at, h, d in self._held if h and any(a <= at <= b for a, b in spans)]
        if not inside:
            return None
        device = [d for _, _, d in inside if d is not None]
        return MemoryTrace(
            at_ns=[at for at, _, _ in inside],
            host=[h for _, h, _ in inside if h],
            device=device if len(device) == len(inside) else None,
        )

    def summary(self, done: Round, ours: Collection[int]) -> Telemetry:
        """The readings as a record keeps them; energy and clocks only from while the steps were sampled. The
        worker and those of this run that wait for their turn are `ours`."""
        gpu = self._while_sampling(done.series)
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
            cpu_load=self._load(),
            cpu_pace=done.telemetry.cpu_pace if done.telemetry else None,
        )

    def _load(self) -> float | None:
        """The share of the machine's cores that were busy between the first reading and the last. Not psutil's own
        figure, which everybody in a process shares: several may watch at a time."""
        if len(self._cores) < 2:
            return None
        (all_before, idle_before), (all_after, idle_after) = self._cores
        passed = all_after - all_before
        return min(max(1 - (idle_after - idle_before) / passed, 0.0), 1.0) if passed > 0 else None

    def throttled(self, series: list[Series]) -> dict[SeriesKind, list[int]]:
        """For each series, its blocks that overlap a reading (and the period around it) under throttling."""
        half = int(PERIOD_S * 1e9)
        bad = [(r.at_ns - half, r.at_ns + half) for r in self.readings if r.gpu and r.gpu.throttle]
        marked: dict[SeriesKind, list[int]] = {}
        for one in series:
            hit = [
                i
                for i, (at, wall) in enumerate(zip(one.at_ns, one.wall_ns, strict=True))
                if any(at < high and at + wall > low for low, high in bad)
            ]
            if hit:
                marked[one.kind] = hit
        return marked

    def _while_sampling(self, series: list[Series]) -> list[GpuReading]:
        spans = [(s.at_ns[0], s.at_ns[-1] + s.wall_ns[-1]) for s in series if s.kind != "warmup" and s.at_ns]
        return [r.gpu for r in self.readings if r.gpu and any(a <= r.at_ns <= b for a, b in spans)]


def _spread(values: list[float | None]) -> list[float] | None:
    """Least, middle and greatest of the readings; None where there were none."""
    known = sorted(v for v in values if v is not None)
    return [known[0], known[len(known) // 2], known[-1]] if known else None


def _energy(readings: list[Reading], series: list[Series]) -> float | None:
    """Joules of one pipelined step, from the counter's readings inside that series; None if it has too few."""
    one = next((s for s in series if s.kind == "pipelined" and s.at_ns), None)
    if one is None:
        return None
    begin, end = one.at_ns[0], one.at_ns[-1] + one.wall_ns[-1]
    inside = [
        (r.at_ns, r.gpu.energy_j)
        for r in readings
        if r.gpu and r.gpu.energy_j is not None and begin <= r.at_ns <= end
    ]
    if len(inside) < 3:
        return None
    (first_ns, first_j), (last_ns, last_j) = inside[0], inside[-1]
    watts = (last_j - first_j) / ((last_ns - first_ns) / 1e9)
    return watts * (end - begin) / 1e9 / sum(one.steps)
