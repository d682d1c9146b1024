"""Rules that no recorded trace triggers alone: each on a hand-made trace with the habit, and on its twin
without."""

from typing import Any

import pytest
from traces import TraceBuilder

from tare.findings.find import find
from tare.findings.finding import Finding
from tare.findings.registry import get_rule
from tare.findings.scene import Scene

PEAKS: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": "Test GPU", "computeMajor": 9}]}


def seen(rule: str, after: TraceBuilder, before: TraceBuilder | None = None) -> Finding | None:
    """What one rule says of one trace, or of two."""
    scene = Scene(before.build()) if before else None
    found = find(Scene(after.build()), scene, [get_rule(rule)])
    assert len(found) <= 1
    return found[0] if found else None


def steps(make: Any, count: int = 2, length: float = 1000, **metadata: Any) -> TraceBuilder:
    """`make(trace, start)` for each of some steps of so many µs."""
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


def test_allocator_churn() -> None:
    def churn(trace: TraceBuilder, at: float) -> None:
        kernels(trace, at)
        trace.call("cudaFree", at + 100, at + 400)
        kernels(trace, at + 500)

    found = seen("allocator-churn", steps(churn))
    assert found is not None
    assert found.gain_s == pytest.approx(300e-6, rel=0.05)
    assert seen("allocator-churn", steps(lambda trace, at: kernels(trace, at))) is None


def test_what_happens_in_one_step_of_several_is_no_habit() -> None:
    def once(trace: TraceBuilder, at: float) -> None:
        kernels(trace, at)
        if at == 0:
            for i in range(4):
                trace.call("cudaMalloc", at + 100 + 50 * i, at + 140 + 50 * i)
            trace.op("aten::item", at + 300, at + 420)
            copy = trace.call("cudaMemcpyAsync", at + 304, at + 308)
            trace.copy("DtoH (Device -> Pinned)", at + 310, at + 312, copy, 4)
            trace.call("cudaStreamSynchronize", at + 310, at + 410)
        kernels(trace, at + 500)

    for rule in ("allocator-churn", "hidden-sync", "repeated-sync"):
        assert seen(rule, steps(once)) is None


def test_tracebacks() -> None:
    def formatting(trace: TraceBuilder, at: float) -> None:
        kernels(trace, at)
        trace.frame("train.py(10): step", at, at + 900)
        for i in range(10):
            begin = at + 100 + i * 50
            trace.frame("traceback.py(180): format_exc", begin, begin + 40)
            trace.frame("traceback.py(150): format_exception", begin + 5, begin + 35)
        kernels(trace, at + 700)

    found = seen("exceptions", steps(formatting))
    assert found is not None
    assert found.evidence["tracebacks_per_step"] == 10
    assert found.gain_s == pytest.approx(400e-6, rel=0.1)
    assert "train.py" in found.places[0].where
    assert seen("exceptions", steps(lambda trace, at: kernels(trace, at))) is None


def test_a_wait_while_the_device_is_busy_is_no_finding() -> None:
    """item() at the end of a step whose device work takes far longer: nothing is gained without it."""

    def make(trace: TraceBuilder, at: float) -> None:
        trace.launch(at + 1, at + 2, at + 3, at + 998)
        trace.op("aten::item", at + 20, at + 999.5)
        trace.op("aten::_local_scalar_dense", at + 22, at + 999.2)
        copy = trace.call("cudaMemcpyAsync", at + 24, at + 28)
        trace.copy("DtoH (Device -> Pinned)", at + 998, at + 998.5, copy, 4)
        trace.call("cudaStreamSynchronize", at + 30, at + 999)

    assert seen("hidden-sync", steps(make)) is None


def test_a_wait_that_lets_the_device_run_dry_is_one() -> None:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.launch(at + 5, at + 10, at + 12, at + 300)
        trace.op("aten::item", at + 20, at + 325)
        trace.op("aten::_local_scalar_dense", at + 22, at + 322)
        copy = trace.call("cudaMemcpyAsync", at + 24, at + 28)
        trace.copy("DtoH (Device -> Pinned)", at + 301, at + 303, copy, 4)
        trace.call("cudaStreamSynchronize", at + 30, at + 310)
        # It takes 290 µs of host time to get to the next kernel, which could have hidden behind the first.
        trace.launch(at + 600, at + 605, at + 608, at + 900)

    found = seen("hidden-sync", steps(make))
    assert found is not None
    assert found.gain_s == pytest.approx(300e-6, rel=0.1)
    assert "aten::item" in found.summary


def test_copies_to_the_device_that_close_with_a_wait_are_no_hidden_sync() -> None:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("aten::copy_", at + 10, at + 400)
        copy = trace.call("cudaMemcpyAsync", at + 20, at + 380)
        trace.copy("HtoD (Pageable -> Device)", at + 50, at + 370, copy, 1 << 20)
        trace.call("cudaStreamSynchronize", at + 382, at + 390)
        kernels(trace, at + 500)

    trace = steps(make)
    assert seen("hidden-sync", trace) is None
    found = seen("pageable-copies", trace)
    assert found is not None
    assert found.at_most


def test_small_pageable_copies_are_left_alone() -> None:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("aten::copy_", at + 10, at + 100)
        copy = trace.call("cudaMemcpyAsync", at + 20, at + 90)
        trace.copy("HtoD (Pageable -> Device)", at + 50, at + 80, copy, 512)
        kernels(trace, at + 200)

    assert seen("pageable-copies", steps(make)) is None
    assert seen("scalar-copies", steps(make)) is None


def product(shape: tuple[int, int, int], kind: str, kernel: str, length: float = 800) -> Any:
    m, k, n = shape

    def make(trace: TraceBuilder, at: float) -> None:
        inputs = {"Input Dims": [[m, k], [k, n]], "Input type": [kind, kind], "Input Strides": [[k, 1], [n, 1]]}
        trace.op("aten::mm", at + 5, at + 30, **inputs)
        trace.launch(at + 10, at + 15, at + 20, at + 20 + length, kernel)
        # The profiler's own wait at the end of a step.
        trace.call("cudaDeviceSynchronize", at + 35, at + 25 + length)

    return make


HALF = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32"


@pytest.mark.parametrize(
    ("shape", "kind", "fires"),
    [
        ((512, 511, 512), "c10::BFloat16", True),
        ((512, 512, 30_522), "c10::Half", True),
        ((511, 512, 512), "c10::BFloat16", False),
        ((512, 512, 512), "c10::BFloat16", False),
        ((512, 511, 512), "float", False),
    ],
)
def test_off_multiple_shapes(shape: tuple[int, int, int], kind: str, fires: bool) -> None:
    """The number of rows of a row-major factor matters to nobody."""
    assert (seen("off-multiple-shapes", steps(product(shape, kind, HALF))) is not None) == fires


@pytest.mark.parametrize(
    ("kernel", "kind", "fires"), [(SIMT, "float", True), (TF32, "float", False), (SIMT, "double", False)]
)
def test_tf32_off(kernel: str, kind: str, fires: bool) -> None:
    assert (seen("tf32-off", steps(product((512, 512, 512), kind, kernel))) is not None) == fires


def test_tf32_off_is_silent_where_there_is_no_tf32() -> None:
    old: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": "Old GPU", "computeMajor": 7}]}
    assert seen("tf32-off", steps(product((512, 512, 512), "float", SIMT), **old)) is None


def test_kernel_changed() -> None:
    fast = steps(product((512, 512, 512), "float", TF32, 100), length=140)
    slow = steps(product((512, 512, 512), "float", SIMT, 700), length=740)
    found = seen("kernel-changed", slow, fast)
    assert found is not None
    assert found.gain_s == pytest.approx(600e-6, rel=0.05)
    assert "aten::mm [[512,512],[512,512]]" in found.places[0].where
    assert seen("kernel-changed", fast, slow) is None
    other_shape = steps(product((256, 512, 512), "float", SIMT, 700), length=740)
    assert seen("kernel-changed", other_shape, fast) is None


def test_a_slower_kernel_behind_which_the_host_is_slower_still_costs_nothing() -> None:
    fast = steps(product((512, 512, 512), "float", TF32, 10))
    slow = steps(product((512, 512, 512), "float", SIMT, 100))
    assert seen("kernel-changed", slow, fast) is None


def convolution(inner: str, kernel: str, length: float) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("aten::conv2d", at + 2, at + 32, **{"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3]]})
        trace.op(inner, at + 5, at + 30, **{"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3], [len(inner)]]})
        trace.launch(at + 10, at + 15, at + 20, at + 20 + length, kernel)
        trace.call("cudaDeviceSynchronize", at + 35, at + 25 + length)

    return make


def test_another_library_behind_the_same_operator_is_a_changed_kernel() -> None:
    fast = steps(convolution("aten::cudnn_convolution", "sm90_xmma_fprop", 100), length=140)
    slow = steps(convolution("aten::_slow_conv2d_forward", "im2col_kernel", 500), length=540)
    found = seen("kernel-changed", slow, fast)
    assert found is not None
    assert found.places[0].where.startswith("aten::conv2d")
    assert found.gain_s == pytest.approx(400e-6, rel=0.05)


def test_operator_slowed() -> None:
    fast = steps(product((512, 512, 512), "float", TF32, 100), length=140)
    slow = steps(product((512, 512, 512), "float", TF32, 300), length=340)
    found = seen("operator-slowed", slow, fast)
    assert found is not None
    assert found.gain_s == pytest.approx(200e-6, rel=0.05)
    assert seen("operator-slowed", fast, fast) is None
    assert seen("kernel-changed", slow, fast) is None


def parts(trace: TraceBuilder, at: float) -> None:
    for i, name in enumerate(("aten::add", "aten::clamp_min")):
        trace.op(name, at + 50 * i, at + 50 * i + 20)
        trace.launch(at + 50 * i + 5, at + 50 * i + 9, at + 50 * i + 10, at + 50 * i + 50, f"elementwise_{name}")


def fused(length: float) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("CompiledFunction", at, at + 20)
        trace.launch(at + 5, at + 9, at + 10, at + 10 + length, "triton_poi_fused_add_relu_0", "cuLaunchKernel")
        trace.call("cudaDeviceSynchronize", at + 25, at + 15 + length)

    return make


def test_fused_slower() -> None:
    """Two kernels of 40 µs each against one of 200; one of 50 is what fusing is for."""
    found = seen("fused-slower", steps(fused(200), length=220), steps(parts))
    assert found is not None
    assert found.gain_s == pytest.approx(120e-6, rel=0.05)
    assert found.evidence["parts"] == "aten::add, aten::clamp_min"
    assert seen("fused-slower", steps(fused(50)), steps(parts)) is None


def paced(extra: float, pace: float = 1.0) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        begin = at
        for i in range(10):
            trace.launch(begin + 1, begin + 5, begin + 8, begin + 18)
            begin += 30 * pace + (extra if i == 4 else 0)

    return make


def test_host_work_grew() -> None:
    found = seen("host-work-grew", steps(paced(400)), steps(paced(0)))
    assert found is not None
    assert found.gain_s == pytest.approx(400e-6, rel=0.1)
    assert found.evidence["stretches"] == 1


def test_a_host_that_is_slower_as_a_whole_is_no_growth() -> None:
    assert seen("host-work-grew", steps(paced(0, 2.0)), steps(paced(0))) is None


def test_rules_of_two_traces_need_two() -> None:
    assert not [finding for finding in find(Scene(steps(parts).build())) if get_rule(finding.rule).pair]


def test_a_trace_of_the_host_alone_has_no_findings_and_breaks_no_rule() -> None:
    trace = TraceBuilder()
    trace.step(0, 100)
    trace.op("aten::mm", 10, 90, **{"Input Dims": [[4, 4], [4, 4]], "Input type": ["float", "float"]})
    scene = Scene(trace.build())
    assert find(scene) == []
    assert find(scene, scene) == []


@pytest.mark.parametrize("dims", [None, "x", [[1, "a"]], [[-1, 2], [2, 3]], {}, [[2, 3]], [[2**70, 1], [1, 1]]])
def test_odd_shapes_in_a_trace_break_no_rule(dims: Any) -> None:
    """A trace is anybody's file: what is no shape counts as none."""

    def make(trace: TraceBuilder, at: float) -> None:
        odd = {"Input Dims": dims, "Input type": dims, "Input Strides": dims, "Concrete Inputs": dims}
        for i, name in enumerate(
            ("aten::mm", "aten::conv2d", "aten::convolution", "aten::batch_norm", "aten::add")
        ):
            trace.op(name, at + 50 * i, at + 50 * i + 20, **odd)
            trace.launch(at + 50 * i + 5, at + 50 * i + 9, at + 50 * i + 10, at + 50 * i + 45, SIMT)

    scene = Scene(steps(make).build())
    assert isinstance(find(scene, scene), list)
