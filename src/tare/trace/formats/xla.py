"""What XLA's profilers record of JAX and TensorFlow, as torch.profiler's events: from XPlanes, and from the Chrome
traces that are made of them.

Work on a device has the operation that it belongs to (`hlo_op`) and the correlation id of its call. A call is
named after its kernel; here it gets the name of a call, and an operator around it. What else the host does is the
runtime's (`PjitFunction`, `ThunkExecutor::Execute`). It counts as calls of a runtime, which launch and compute
nothing. On a host alone, the operations are spread over threads, and the runtime waits for them. There its events
are put on threads of their own, so that they count where no operation runs.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tare.system.xspace import Stats, is_copy, is_device_work, is_operator
from tare.trace.events import Event, EventArgs, Tag, span, triple
from tare.trace.formats.ranges import range_event, step_name
from tare.trace.names import call_kind
from tare.trace.tables import WORKING

Thread = tuple[Tag, Tag]
# The names of calls by what they launch. A call that launches several kernels launches a graph.
_CALLS = {"kernel": "LaunchKernel", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
_GRAPH = "GraphLaunch"
_DIRECTION = re.compile(r"Memcpy([HDP])2([HDP])")
# The tracer of Python writes '$train.py:12 step', and '$builtins len' for what has no line.
_FRAME = re.compile(r"\$(.+):(\d{1,9}) (.+)")
# Where XLA notes that an operation has ended.
_END = "end: "
_NVTX = "NVTX:"


class XlaEvents:
    """Converts the events of one profile. Those of devices come first: `learn` or `on_device` sees each of them
    before `on_host` sees the calls."""

    def __init__(self, has_device: bool = False) -> None:
        self.has_device = has_device
        # By correlation id: what a call launched, and for which operation.
        self._launched: dict[int, tuple[str, str]] = {}

    def learn(self, name: str, stats: Stats) -> None:
        correlation = number(stats.get("correlation_id"))
        if correlation <= 0 or not is_device_work(name):
            return
        operation, program = (str(stats.get(key, "")) for key in ("hlo_op", "hlo_module"))
        call = _CALLS[_category(name, stats)]
        if correlation in self._launched:
            call, operation = _GRAPH, operation if self._launched[correlation][1] == operation else program
        self._launched[correlation] = call, operation

    def on_device(
        self, name: str, stats: Stats, device: int, stream: int, start: int, end: int
    ) -> Iterator[Event]:
        if not is_device_work(name):
            return
        category = _category(name, stats)
        correlation = number(stats.get("correlation_id"))
        args: dict[str, Any] = {"device": device, "stream": stream, "correlation": correlation}
        if category == "kernel":
            args |= _launch(str(stats.get("kernel_details", "")))
        else:
            # The schema names one of them with a capital letter.
            details = _details(str(stats.get("memcpy_details", stats.get("Memset_details", ""))))
            args["bytes"] = number(details.get("size", details.get("num_bytes")))
            name = _copy_name(name, details) if category == "gpu_memcpy" else "Memset (Device)"
        yield span(category, name, (f"device {device}", stream), start, end, EventArgs(**args))

    def on_host(self, name: str, stats: Stats, thread: Thread, start: int, end: int) -> Iterator[Event]:
        """Nothing for what has no length."""
        if end <= start or name.startswith(_END):
            return
        correlation = number(stats.get("correlation_id"))
        if "step_num" in stats:
            yield span("user_annotation", step_name(max(number(stats["step_num"]), 0)), thread, start, end)
        elif name.startswith("$"):
            yield span("python_function", _frame_name(name), thread, start, end)
        elif name.startswith(_NVTX):
            yield range_event(name.removeprefix(_NVTX), thread, start, end)
        elif correlation > 0:
            call, operation = self._launched.get(correlation, ("", ""))
            if operation:
                yield span("cpu_op", operation, thread, start, end)
            name = call if call and call_kind(name) not in WORKING else name
            yield span("cuda_driver", name, thread, start, end, EventArgs(correlation=correlation))
        elif is_operator(name, stats):
            yield span("cpu_op", name, thread, start, end)
        elif self.has_device:
            # A name that looks like a launch's is one of the runtime's all the same: it has no correlation id.
            yield span("cpu_op" if call_kind(name) in WORKING else "Runtime", name, thread, start, end)
        else:
            yield span("Runtime", name, (thread[0], f"{thread[1]} (runtime)"), start, end)


def number(value: Any) -> int:
    """An integer, also one that a Chrome trace has in quotes; -1 for anything else."""
    if isinstance(value, str):
        value = int(value) if value.removeprefix("-").isdecimal() and len(value) < 20 else -1
    return value if isinstance(value, int) else -1


def device_properties(device: int, stats: Stats) -> dict[str, Any]:
    capability = {"computeMajor": "compute_cap_major", "computeMinor": "compute_cap_minor"}
    known = {name: number(stats[stat]) for name, stat in capability.items() if stat in stats}
    return {"id": device, "name": str(stats.get("gpu_device_name", stats.get("device_type_string", "")))} | known


def _category(name: str, stats: Stats) -> str:
    if is_copy(name, stats):
        return "gpu_memcpy"
    return "gpu_memset" if "Memset_details" in stats or name.startswith("Memset") else "kernel"


def _details(text: str) -> dict[str, str]:
    """From 'kind_src:pageable kind_dst:device size:4096 dest:0', or 'regs:32 static_shared:0 ... grid:4,1,1'."""
    return {name: value for name, _, value in (part.partition(":") for part in text.split())}


# A step repeats its kernels.
@lru_cache(maxsize=16384)
def _launch(text: str) -> dict[str, Any]:
    details = _details(text)
    launch: dict[str, Any] = {"registers": number(details.get("regs"))}
    for shape in ("grid", "block"):
        sizes = [number(size) for size in details.get(shape, "").split(",")]
        if len(sizes) == 3:
            launch[shape] = triple(*sizes)
    shared = [number(details.get(kind)) for kind in ("static_shared", "dynamic_shared")]
    return launch | ({"shared": sum(max(size, 0) for size in shared)} if max(shared) >= 0 else {})


def _copy_name(name: str, details: dict[str, str]) -> str:
    """As torch.profiler names copies: 'Memcpy HtoD (Pageable -> Device)'."""
    match = _DIRECTION.match(name)
    ends = (details.get(end, "unknown").replace("_", " ").title() for end in ("kind_src", "kind_dst"))
    return f"Memcpy {f'{match[1]}to{match[2]}' if match else name} ({' -> '.join(ends)})"


def _frame_name(name: str) -> str:
    """As torch.profiler names frames: 'train.py(12): step', '<built-in function len>'."""
    match = _FRAME.fullmatch(name)
    return f"{match[1]}({match[2]}): {match[3]}" if match else f"<built-in function {name.rpartition(' ')[2]}>"
