"""torch.profiler: a trace of some steps, and net, the part of a step in which the device computes."""

import gzip
import math
import shutil
import tempfile
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from tare.measure.work import FREE
from tare.protocol.messages import StepProfile
from tare.records.record import Net
from tare.system.private_files import open_private

# Steps that `profile_steps` profiles: as many as last this long, within the bounds.
WANTED_S = 0.1
FEWEST_STEPS, MOST_STEPS = 3, 50
# A longer step is profiled once.
LONG_STEP_S = 1.0
# Device activities that compute nothing: copies between host and device, and kineto's own entries.
NOT_KERNELS = ("Memcpy", "Memset", "ProfilerStep", "Context Sync", "Event Sync", "Stream Sync")
NOT_COMPUTING = tuple(name for name in NOT_KERNELS if name != "Memset")
WITHIN_DEVICE = "Memcpy DtoD"
# Events of a CPU trace whose names look like an operator's, and which only call operators.
CALLERS = ("autograd::", "torch::", "profiler::", "prim::", "inductor::")

Interval = tuple[int, int]


@contextmanager
def recording(activities: Sequence[Any], warmup: int, active: int, **details: bool) -> Iterator[Any]:
    """torch's profiler, whose `step` is called after each of `warmup` + `active` steps."""
    from torch.profiler import profile, schedule

    with warnings.catch_warnings():
        # torch recommends `acc_events` for several cycles. There is one cycle here, and the option would make a
        # Python object of every event, which takes 19 s for 36,000 operators.
        warnings.filterwarnings("ignore", message=".*Profiler clears events")
        # Without `repeat` a second cycle begins at once and discards the events of the first.
        plan = schedule(wait=0, warmup=warmup, active=active, repeat=1)
        with profile(activities=activities, schedule=plan, **details) as profiler:
            yield profiler


def write_trace(profiler: Any, path: str) -> None:
    """Writes the trace, gzipped at the fastest level: torch's own export takes 20 times as long for a third
    less."""
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        plain = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(plain))
        pack(plain, path)


def pack(plain: Path, path: str | Path) -> None:
    with (
        plain.open("rb") as read,
        open(path, "wb", opener=open_private) as packed,
        gzip.open(packed, "wb", compresslevel=1) as written,
    ):
        shutil.copyfileobj(read, written, 1 << 20)


def profile_steps(
    step: Callable[[], Any], synchronize: Callable[[], None], device_type: str, step_s: float
) -> StepProfile:
    """Profiles a few steps for net and the kernels. A profiled process stays slower: call this after the
    timing."""
    from torch.profiler import ProfilerActivity

    on_cpu = device_type == "cpu"
    if not on_cpu and device_type != "cuda":
        return StepProfile(net=Net(reason=f"torch's profiler does not see the kernels of {device_type}"))
    steps = steps_to_profile(step_s)
    activity = ProfilerActivity.CPU if on_cpu else ProfilerActivity.CUDA
    # The profiler may lose kernels of the first step that it sees.
    with recording([activity], warmup=1, active=steps) as profiler:
        for _ in range(1 + steps):
            step()
            synchronize()
            profiler.step()
    # Kineto's own list: torch's view of it takes a second for a step of a few thousand operators.
    events = profiler.profiler.kineto_results.events()
    if on_cpu:
        return StepProfile(net=operator_share(events, steps))
    kernels = {name: max(round(count / steps), 1) for name, count in kernels_among(events).items()}
    return StepProfile(net=kernel_time(events, steps), kernels=kernels)


def steps_to_profile(step_s: float) -> int:
    """How many steps that take about `step_s` are profiled for net."""
    if step_s >= LONG_STEP_S:
        return 1
    return max(FEWEST_STEPS, min(MOST_STEPS, math.ceil(WANTED_S / max(step_s, 1e-6))))


def kernels_among(events: Iterable[Any]) -> dict[str, int]:
    """How often each kernel was launched."""
    names = (str(event.name()) for event in _on_device(events))
    return dict(Counter(name for name in names if not name.startswith(NOT_KERNELS)))


def kernel_time(events: Iterable[Any], steps: int) -> Net:
    """Per step, the union of the intervals of kernels, memsets and copies within the device."""
    computing = [
        (event.start_ns(), event.end_ns())
        for event in _on_device(events)
        if (name := str(event.name())).startswith(WITHIN_DEVICE) or not name.startswith(NOT_COMPUTING)
    ]
    if not computing:
        return Net(steps=steps, reason="the profiler saw no kernel")
    return Net(steps=steps, busy_s=union_ns(computing) / steps / 1e9, method="union of kernels")


def operator_share(events: Iterable[Any], steps: int) -> Net:
    """The share of a step that operators spend computing on a CPU: the median over the profiled steps.

    An operator's own time is its duration without the operators it calls. It counts unless the operator only
    allocates or makes a view, or mostly calls others: `aten::conv2d` is dispatch, `aten::mkldnn_convolution` is
    not.
    """
    threads: dict[int, list[tuple[int, int, str]]] = {}
    windows: list[Interval] = []
    for event in events:
        name = str(event.name())
        if name.startswith("ProfilerStep"):
            windows.append((event.start_ns(), event.end_ns()))
        elif "::" in name and not name.startswith(CALLERS) and not event.is_user_annotation():
            threads.setdefault(event.start_thread_id(), []).append((event.start_ns(), -event.end_ns(), name))
    if not windows or not threads:
        return Net(steps=steps, reason="the profiler saw no operator")
    computing = sorted(own for operators in threads.values() for own in _own_times(operators))
    shares = []
    for start, end in windows:
        first, last = bisect_left(computing, (start, 0)), bisect_left(computing, (end, 0))
        shares.append(sum(own for _, own in computing[first:last]) / max(end - start, 1))
    return Net(steps=steps, share=min(median(shares), 1.0), method="share of operators that compute")


def union_ns(intervals: Iterable[Interval]) -> int:
    """The time covered by any of the intervals."""
    covered, reached = 0, 0
    for start, end in sorted(intervals):
        covered += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return covered


def _on_device(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        if str(event.device_type()).endswith("CUDA") and not event.is_user_annotation():
            yield event


def _own_times(operators: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """Start and own time of the operators that compute. `operators` of one thread are (start, -end, name): sorted
    like that, a caller precedes what it calls."""
    computing: list[tuple[int, int]] = []
    # [start, end, name, time in the operators it called, of which in those that do work]
    open_calls: list[list[Any]] = []

    def close() -> None:
        start, end, name, called, working = open_calls.pop()
        free = computes_nothing(name)
        own = end - start - called
        if not free and own >= working:
            computing.append((start, own))
        if open_calls:
            open_calls[-1][3] += end - start
            open_calls[-1][4] += 0 if free else end - start

    for start, negative_end, name in sorted(operators):
        while open_calls and open_calls[-1][1] <= start:
            close()
        open_calls.append([start, -negative_end, name, 0, 0])
    while open_calls:
        close()
    return computing


@cache
def computes_nothing(name: str) -> bool:
    """Whether an operator only allocates memory or makes a view."""
    import torch

    if FREE.match(name):
        return True
    namespace, _, operator = name.partition("::")
    packet: Any = getattr(getattr(torch.ops, namespace, None), operator, None)
    overloads = packet.overloads() if hasattr(packet, "overloads") else []
    return any(getattr(packet, overload).is_view for overload in overloads)
