"""Net of a program that XLA runs: some steps under the profiler of JAX or TensorFlow, which writes an XSpace."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tare.measure.profiler import Interval, steps_to_profile, union_ns
from tare.protocol.messages import StepProfile
from tare.records.record import Net
from tare.system.xspace import (
    HOST,
    XEvent,
    XPlane,
    XSpace,
    is_copy,
    is_device_work,
    is_eager_kernel,
    is_operator,
)

# A copy that stays on the device computes, as in net of torch.
WITHIN_DEVICE = "MemcpyD2D"
# A graph whose nodes were not recorded.
WHOLE_GRAPH = "CudaGraphExec"


class XlaProfiler(NamedTuple):
    """A framework's profiler. `start` gets the folder for the profile, and `mark` marks the step of a number: with
    jax.profiler.StepTraceAnnotation, or with tf.profiler.experimental.Trace(..., step_num=number, _r=1)."""

    start: Callable[[str], Any]
    stop: Callable[[], Any]
    mark: Callable[[int], AbstractContextManager[Any]]


def profile_xla_steps(
    step: Callable[[], Any],
    synchronize: Callable[[], None],
    profiler: XlaProfiler,
    device_type: str,
    step_s: float,
) -> StepProfile:
    """Net and kernels of a few steps. A profiled process stays slower: call this after the timing."""
    steps = steps_to_profile(step_s)
    with tempfile.TemporaryDirectory() as folder:
        profiler.start(folder)
        try:
            # The profiler may lose what the first step launches.
            for number in range(1 + steps):
                with profiler.mark(number):
                    step()
                    synchronize()
        finally:
            profiler.stop()
        profiles = list(Path(folder).rglob("*.xplane.pb"))
        if not profiles:
            return StepProfile(net=Net(reason="the profiler wrote no profile"))
        planes = XSpace(profiles[0]).planes
    return step_profile(planes, on_device=device_type != "cpu")


def step_profile(planes: Iterable[XPlane], on_device: bool) -> StepProfile:
    """What a profile says of its marked steps, without the first."""
    hosts, devices = [], []
    for plane in planes:
        if plane.device is not None:
            devices.append(plane)
        elif plane.name.startswith(HOST):
            hosts.append(plane)
    events = [event for plane in hosts for line in plane.lines for event in line.events]
    windows = sorted((event.start, event.end) for event in events if "step_num" in event.stats)[1:]
    if not windows:
        return StepProfile(net=Net(reason="the profiler saw no step"))
    if not on_device:
        operators = [event for event in events if is_operator(event.name, event.stats)]
        operators = operators or [event for event in events if is_eager_kernel(event.name)]
        return StepProfile(net=_share([(event.start, event.end) for event in operators], windows))
    # Every step waits for its work, so that the work of the first one comes before the second.
    work = [event for event in _work(devices) if event.start >= windows[0][0]]
    computing = [event for event in work if not is_copy(event.name, event.stats) or event.name == WITHIN_DEVICE]
    if not computing:
        return StepProfile(net=Net(steps=len(windows), reason="the profiler saw no kernel"))
    busy_s = union_ns((event.start, event.end) for event in computing) / len(windows) / 1e9
    net = Net(steps=len(windows), busy_s=busy_s, method="union of kernels")
    if any(event.name.startswith(WHOLE_GRAPH) for event in computing):
        method = "CUDA graphs were recorded as a whole, with the gaps between their kernels"
        net = Net(steps=len(windows), busy_s=busy_s, upper_bound=True, method=method)
    counts = Counter(event.name for event in computing if not event.name.startswith(("Memcpy", "Memset")))
    return StepProfile(
        net=net, kernels={name: max(round(count / len(windows)), 1) for name, count in counts.items()}
    )


def _work(devices: Iterable[XPlane]) -> Iterator[XEvent]:
    for plane in devices:
        for line in plane.lines:
            if line.stream is not None:
                yield from (event for event in line.events if is_device_work(event.name))


def _share(operators: list[Interval], windows: list[Interval]) -> Net:
    """The share of a step in which an operator computes on any thread: the median over the steps."""
    shares = []
    for begin, finish in windows:
        inside = (
            (max(start, begin), min(end, finish)) for start, end in operators if start < finish and end > begin
        )
        shares.append(union_ns(inside) / max(finish - begin, 1))
    if not any(shares):
        return Net(steps=len(windows), reason="the profiler saw no operator")
    return Net(steps=len(windows), share=median(shares), method="share of operators that compute")
