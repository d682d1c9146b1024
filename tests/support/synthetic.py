"""Synthetic traces with known inefficiencies, and what one rule says of them."""

from collections.abc import Mapping
from typing import Any

from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import Finding, find, get_rule

PEAKS: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": "Test GPU", "computeMajor": 9}]}
HALF = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32"


def seen(
    rule: str,
    after: TraceBuilder,
    before: TraceBuilder | None = None,
    rates: Mapping[str, float] | None = None,
) -> Finding | None:
    """What one rule says of one trace, or of two."""
    earlier = Context(before.build()) if before else None
    found = find(Context(after.build(), rates=rates), earlier, [get_rule(rule)])
    assert len(found) <= 1
    return found[0] if found else None


def steps(make: Any, count: int = 2, length: float = 1000, **metadata: Any) -> TraceBuilder:
    """A trace in which `make(trace, start)` fills each step of `length` µs."""
    trace = TraceBuilder(**(PEAKS | metadata))
    for i in range(count):
        trace.step(i * length, (i + 1) * length)
        make(trace, i * length)
    return trace


def kernels(trace: TraceBuilder, at: float, count: int = 4, every: float = 20, length: float = 10) -> None:
    for i in range(count):
        start = at + i * every
        trace.op("aten::mul", start, start + 8)
        trace.launch(start + 2, start + 6, start + 8, start + 8 + length)


def product(shape: tuple[int, int, int], kind: str, kernel: str, length: float = 800) -> Any:
    m, k, n = shape

    def make(trace: TraceBuilder, at: float) -> None:
        inputs = {"Input Dims": [[m, k], [k, n]], "Input type": [kind, kind], "Input Strides": [[k, 1], [n, 1]]}
        trace.op("aten::mm", at + 5, at + 30, **inputs)
        trace.launch(at + 10, at + 15, at + 20, at + 20 + length, kernel)
        # The profiler's own wait at the end of a step.
        trace.call("cudaDeviceSynchronize", at + 35, at + 25 + length)

    return make


def sequence(trace: TraceBuilder, at: float, *operators: tuple[str, float], **inputs: object) -> float:
    """One kernel an operator, launched every 10 us, and as long as given; the device is the slower one. `inputs`
    are those of a softmax."""
    busy = at + 20.0
    for i, (name, length) in enumerate(operators):
        start = at + 10 * i
        trace.op(f"aten::{name}", start, start + 9, **(inputs if "softmax" in name else {}))
        trace.launch(start + 3, start + 7, busy, busy + length, kernel=name)
        busy += length
    return busy


def device_bound(make: Any, length: float) -> TraceBuilder:
    """Four steps in which the host launches and returns long before the device is done."""
    trace = TraceBuilder()
    for number in range(4):
        at = number * length
        trace.step(at, at + 95, number)
        make(trace, at)
    return trace
