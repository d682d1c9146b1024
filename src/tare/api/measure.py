"""`tare.measure`: times a callable in this process."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from tare.api.display import Displayed
from tare.api.steps import CallableProgram, clock_of
from tare.cases.options import make_options
from tare.measure.clock import spin_ns
from tare.measure.devices import open_gpu
from tare.measure.memory import MemoryMeter, TorchAllocator
from tare.measure.sampler import SamplingLimits, StepTimer, sample
from tare.measure.telemetry import busy_reasons, cpu_shares, read_cpu
from tare.records.figures import clean_step_seconds, round_median
from tare.records.record import DeviceMemory, HostMemory, Round, Series
from tare.report.numbers import duration, seconds, several, size
from tare.stats.intervals import Interval
from tare.worker.audit import left_in_threads, left_on_device

if TYPE_CHECKING:
    from tare.report.view import View

# Seconds of sampling, and the relative half width of the interval at which a series ends early.
BUDGET, WIDTH = 3.0, 0.01
# A CPU whose speed changes by more than this makes host-bound figures noisy.
PACE = 0.15


@dataclass(frozen=True, repr=False)
class Measurement(Displayed):
    """What `tare.measure` found. All times are in seconds.

    The intervals are those of this one process: they do not contain the noise between processes.
    """

    name: str
    device: str
    #: The first call, which may compile and allocate. It is not in any other figure.
    first_call: float
    notes: tuple[str, ...]
    #: The raw blocks of all series with their warm-up, as a record keeps them.
    round: Round

    @cached_property
    def gross(self) -> Interval:
        """One step of many back to back, each block synchronised at its end."""
        return self._interval("pipelined")

    @cached_property
    def latency(self) -> Interval:
        """One step alone, synchronised before and after."""
        return self._interval("latency")

    @property
    def samples(self) -> list[float]:
        """The raw samples of gross: seconds per step, one value a block."""
        return self._series("pipelined").step_seconds()

    @property
    def latencies(self) -> list[float]:
        """The raw samples of latency, one a step."""
        return self._series("latency").step_seconds()

    @property
    def p50(self) -> float:
        """The median of latency."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        return self.percentile(95)

    @property
    def p99(self) -> float:
        return self.percentile(99)

    def percentile(self, percent: float) -> float:
        """A percentile of latency, interpolated between samples."""
        import numpy as np

        return float(np.percentile(self.latencies, percent))

    @property
    def memory(self) -> HostMemory:
        """Host memory of the whole process: `peak` while stepping, `start` before the first call."""
        assert self.round.host_memory is not None
        return self.round.host_memory

    @property
    def device_memory(self) -> DeviceMemory | None:
        """Device memory while stepping; None on a CPU."""
        return self.round.device_memory

    def __repr__(self) -> str:
        notes = f"; {several(len(self.notes), 'note')}" if self.notes else ""
        return (
            f"{self.name} on {self.device}: gross {duration(self.gross)}, latency {duration(self.latency)},"
            f" p99 {seconds(self.p99)}{notes}"
        )

    def view(self) -> "View":
        from tare.report.view import View

        device = self.device_memory
        pipelined = self._series("pipelined")
        view = View(self.name, f"{self.device}, in this process")
        view.facts(
            {
                "gross": f"{duration(self.gross)} ({len(pipelined.steps)} blocks, {sum(pipelined.steps)} steps)",
                "latency": f"{duration(self.latency)}, p95 {seconds(self.p95)}, p99 {seconds(self.p99)}",
                "first call": seconds(self.first_call),
                "host peak": size(self.memory.peak),
                "device peak": size(device.reserved_peak) if device and device.reserved_peak is not None else "",
            }
        )
        return view.add("note", *self.notes)

    def _interval(self, kind: Any) -> Interval:
        interval = round_median(self.round, kind)
        assert interval is not None
        return interval

    def _series(self, kind: Any) -> Series:
        series = self.round.find(kind)
        assert series is not None
        return series


def measure(
    step: Callable[..., Any],
    /,
    *args: Any,
    budget: float = BUDGET,
    width: float = WIDTH,
    device: Any = None,
    **kwargs: Any,
) -> Measurement:
    """Measures a callable in this process: `step(*args, **kwargs)`, many times.

    >>> import tare
    >>> result = tare.measure(sorted, list(range(1000)), budget=0.2)
    >>> result.gross.low <= result.gross.median <= result.gross.high
    True
    >>> result.device
    'cpu'

    Steps are warmed up until they are steady, and then timed in blocks until the interval of the median is
    narrower than `width` (a share of it) or `budget` seconds are spent. Work on a GPU is waited for. The device is
    that of the arguments, of a module's parameters, or of the result; where these say nothing it is CUDA's if this
    process uses CUDA. `device` overrides this.

    The step runs in your process, so some things cannot be promised: caches are warm, other objects and threads of
    the program take part, `memory.peak` is that of the whole process, and the noise between processes, which is
    most of all noise, is not in the intervals. `tare.ladder` measures in fresh processes. On a GPU the peaks of
    torch's memory statistics are reset, and its cache is emptied once.

    Work that is still running when a step should have ended, as the audit of `tare run` finds it, is a note of the
    result.
    """
    make_options({"budget": budget, "width": width}, "tare.measure")
    program = CallableProgram(step, args, kwargs)
    started, began = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    memory = MemoryMeter(None)
    result = program.step()
    target = program.find_device(device, result)
    clock = clock_of(target)
    clock.synchronize()
    first_call = time.perf_counter() - began
    del result
    place = str(target) if target is not None else "cpu"
    memory.allocator = TorchAllocator.of(target) if target is not None else None
    memory.mark_prepared()
    gpu = open_gpu(place) if place.startswith("cuda") else None
    spin_before, cpu_before = spin_ns(), read_cpu(time.process_time())
    series: list[Series] = []
    with _frozen_garbage():
        sample(StepTimer(program.step, clock), SamplingLimits(budget, width), series.append)
    shares, pace = cpu_shares(cpu_before, read_cpu(time.process_time())), spin_before / max(spin_ns(), 1)
    host, of_device = memory.host(), memory.device()
    reading = gpu.read() if gpu else None
    others = len(reading.processes.keys() - {os.getpid()}) if reading and reading.processes is not None else None
    busy = busy_reasons(shares and shares.others, shares and shares.steal, others)
    notes = [f"this machine was busy: {', '.join(busy)}"] if busy else []
    if abs(pace - 1) > PACE:
        notes.append(f"the CPU's speed changed by over {PACE:.0%}: host-bound times are noisy here")
    if reading and reading.throttle:
        notes.append(f"the GPU is throttled: {', '.join(reading.throttle)}")
    if series[0].stop == "unsteady":
        notes.append("the steps did not become steady in the time for warming up")
    done = Round(
        index=0, started=started, seconds=time.perf_counter() - began, isolation="none", prepare_s=first_call,
        series=series, host_memory=host, device_memory=of_device,
    )  # fmt: skip
    step_s = median(clean_step_seconds(done, "pipelined"))
    steps = max(series[1].steps)
    if running := left_on_device(program, clock, steps) or left_in_threads(program, clock, step_s):
        notes.append(f"these times are too short: {running}")
    return Measurement(program.name, place, first_call, tuple(notes), done)


@contextmanager
def _frozen_garbage() -> Iterator[None]:
    """The garbage collector need not visit objects that are older than the steps. A program that has frozen
    objects itself keeps its own choice."""
    gc.collect()
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
