"""A real program on a device that is modelled: torch's operators as a CPU records them, with their shapes and
nesting, and kernels whose durations are computed from bytes and operations.

What a remedy gives back is then known: the modelled step with the habit less the modelled step with the remedy.
"""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from traces import TraceBuilder

from tare.trace.counting import ITEM_BYTES, is_counted

# The device moves 1 GB/s and computes 200 GFLOP/s, about the ratio of an H200. So the small tensors of a test keep
# it busy for longer than the host takes.
BANDWIDTH, RATE = 1e9, 200e9
RATES = {"bandwidth": BANDWIDTH, "matrix:fp32": RATE, "matrix:tf32": RATE, "matrix:bf16": RATE}
SHORTEST_US = 2.0
# Host time of an operator besides those that it calls, and of a launch.
OPERATOR_US, LAUNCH_US = 1.0, 2.0
GPU = {"deviceProperties": [{"id": 0, "name": "Modelled GPU", "computeMajor": 9}]}
# Operators that are one kernel on a GPU, whatever they call on a CPU.
WHOLE = (
    "aten::_foreach_", "aten::_fused_", "aten::rms_norm", "aten::scaled_dot_product_attention", "aten::sum",
    "aten::mean", "aten::var", "aten::std", "aten::softmax", "aten::index_select", "aten::cat", "aten::argmax",
)  # fmt: skip
GATHERING = ("aten::index_select", "aten::gather", "aten::index", "aten::nll_loss_forward")
# These only read, or only write.
ONE_WAY = ("aten::fill_", "aten::zero_", "aten::sum", "aten::mean", "aten::var")
PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm")
ATTENTION = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product")
TENSOR_CORES = "sm90_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize128x128x32"

Step = Callable[[], Any]


def record(step: Step, steps: int = 2) -> TraceBuilder:
    """Some steps as torch.profiler records them on a CPU."""
    from torch.profiler import ProfilerActivity

    from tare.measure.profiler import recording

    trace = TraceBuilder(deviceProperties=[], **getattr(step, "metadata", {}))
    with recording([ProfilerActivity.CPU], 1, steps, record_shapes=True) as profiler:
        for _ in range(1 + steps):
            step()
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        trace.events = json.loads(path.read_text())["traceEvents"]
    return trace


def on_device(recorded: TraceBuilder) -> TraceBuilder:
    """The same steps with a modelled device."""
    trace, clock = TraceBuilder(**{**recorded.metadata, **GPU}), _Clock()
    for number, root in enumerate(_steps(recorded.events)):
        begun = clock.now
        for child in root.children:
            clock.emit(trace, child)
        trace.call("cudaDeviceSynchronize", clock.now, max(clock.now, clock.busy) + 1)
        clock.now = max(clock.now, clock.busy) + 2
        trace.step(begun, clock.now, number)
        clock.now += 1
    return trace


class _Node:
    def __init__(self, event: dict[str, Any]) -> None:
        self.event, self.children = event, list[_Node]()
        self.start, self.end = event["ts"], event["ts"] + event["dur"]

    @property
    def name(self) -> str:
        return str(self.event["name"])

    @property
    def whole(self) -> bool:
        return is_counted(self.name) or self.name.startswith(WHOLE)


def _steps(events: list[dict[str, Any]]) -> list[_Node]:
    """The steps, each with the operators and annotations in it as a tree."""
    spans = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
    spans.sort(key=lambda e: (e["ts"], -e["dur"]))
    roots: list[_Node] = []
    stack: list[_Node] = []
    for event in spans:
        node = _Node(event)
        while stack and stack[-1].end <= node.start:
            stack.pop()
        if node.name.startswith("ProfilerStep#"):
            roots.append(node)
        elif stack:
            stack[-1].children.append(node)
        stack.append(node)
    return roots


class _Clock:
    """Tells the tree again, with times of its own."""

    def __init__(self) -> None:
        self.now, self.busy = 0.0, 0.0

    def emit(self, trace: TraceBuilder, node: _Node) -> None:
        begun = self.now
        self.now += OPERATOR_US
        if not node.whole:
            for child in node.children:
                self.emit(trace, child)
        if node.event["cat"] == "cpu_op" and (node.whole or not any(map(_computes, node.children))):
            kernel = duration_us(node.event)
            if kernel:
                launched = self.now + LAUNCH_US
                self.busy = max(self.busy, launched + 2)
                name = TENSOR_CORES if node.name in PRODUCTS else f"kernel<{node.name}>"
                trace.launch(self.now, launched, self.busy, self.busy + kernel, name)
                self.busy += kernel
                self.now = launched
        self.now += OPERATOR_US
        args = {key: value for key, value in node.event.get("args", {}).items() if key not in ("External id",)}
        trace.event(node.event["cat"], node.name, begun, self.now, args=args)


def _computes(node: _Node) -> bool:
    return bool(duration_us(node.event)) or any(map(_computes, node.children))


def duration_us(event: dict[str, Any]) -> float:
    """How long the kernel of an operator takes; 0 for one that launches none."""
    name, args = str(event["name"]), event.get("args", {})
    if _free(name):
        return 0.0
    dims, kinds = args.get("Input Dims", []), args.get("Input type", [])
    sizes = [size for dim, kind in zip(dims, kinds, strict=False) for size in _sizes(dim, kind)]
    if not sizes:
        return SHORTEST_US
    moved, flops = sum(sizes) + max(sizes), 0.0
    if name in PRODUCTS:
        left, right = dims[1:3] if name == "aten::addmm" else dims[:2]
        flops = 2.0 * prod(left) * right[-1]
        moved = 4 * (prod(left) + prod(right) + prod(left) // left[-1] * right[-1])
    elif name.startswith(ATTENTION):
        flops = 4.0 * prod(dims[0]) * dims[1][-2]
    elif name in GATHERING:
        moved = 2 * min(sizes)
    elif name in ONE_WAY:
        moved = max(sizes)
    return max(SHORTEST_US, moved / BANDWIDTH * 1e6, flops / RATE * 1e6)


def _sizes(dim: Any, kind: Any) -> list[int]:
    """The bytes of an input: a tensor, or a list of tensors."""
    if not isinstance(dim, list) or not dim:
        return [ITEM_BYTES[kind]] if kind in ITEM_BYTES else []
    if isinstance(dim[0], list):
        return [4 * prod(shape) for shape in dim]
    return [prod(dim) * ITEM_BYTES[kind]] if kind in ITEM_BYTES else []


@cache
def _free(name: str) -> bool:
    """Whether an operator launches nothing itself: views, and what only allocates or calls others."""
    from tare.measure.profiler import computes_nothing

    # The numbers that an optimizer asks for are on the host on a GPU too.
    caller = name.startswith(("autograd::", "torch::", "profiler::", "aten::item"))
    return not name.startswith("aten::") or caller or computes_nothing(name)
