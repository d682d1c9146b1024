"""Rules that no recorded trace triggers alone: each on a synthetic trace with the inefficiency and on one
without."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import HALF, SIMT, TF32, kernels, product, seen, steps
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import Finding, find, get_rule


def test_allocator_churn() -> None:
    def churn(trace: TraceBuilder, at: float) -> None:
        kernels(trace, at)
        trace.call("cudaFree", at + 100, at + 400)
        kernels(trace, at + 500)

    found = seen("allocator-churn", steps(churn))
    assert found is not None
    assert found.saving_s == pytest.approx(300e-6, rel=0.05)
    assert seen("allocator-churn", steps(lambda trace, at: kernels(trace, at))) is None


def test_what_happens_in_one_step_of_several_is_no_finding() -> None:
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


@pytest.mark.parametrize(("released", "severity"), [(3, "low"), (2, "high"), (0, "high")])
def test_what_the_garbage_collector_releases_is_of_low_severity(released: int, severity: str) -> None:
    """Each of four steps leaves a MiB more than the one before. At the end the collector releases some of it."""
    mib = 2**20

    def leave(trace: TraceBuilder, at: float) -> None:
        kernels(trace, at)
        number = round(at / 1000) + 1
        trace.memory(at + 500, mib, number, number * mib)

    trace = steps(leave, count=4)
    trace.annotation("tare::collection", 4100, 4200)
    for i in range(released):
        trace.memory(4110 + i, -mib, 1 + i, (3 - i) * mib)
    found = seen("memory-growth", trace)
    assert found is not None
    assert found.severity == severity
    assert ("collector" in found.summary) == ("circle" in found.remedy) == (severity == "low")


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
    assert found.saving_s == pytest.approx(400e-6, rel=0.1)
    assert "train.py" in found.locations[0].where
    assert seen("exceptions", steps(lambda trace, at: kernels(trace, at))) is None


def test_a_wait_while_the_device_is_busy_is_no_finding() -> None:
    """item() at the end of a step whose device activity takes far longer: nothing is gained without it."""

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
    assert found.saving_s == pytest.approx(300e-6, rel=0.1)
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
    assert found.bound == "at most"


def test_small_pageable_copies_are_left_alone() -> None:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("aten::copy_", at + 10, at + 100)
        copy = trace.call("cudaMemcpyAsync", at + 20, at + 90)
        trace.copy("HtoD (Pageable -> Device)", at + 50, at + 80, copy, 512)
        kernels(trace, at + 200)

    assert seen("pageable-copies", steps(make)) is None
    assert seen("scalar-copies", steps(make)) is None


@pytest.mark.parametrize(("launched", "fires"), [(40, True), (290, True), (420, False)])
def test_a_copy_is_exposed_only_while_a_kernel_waits_for_it(launched: float, fires: bool) -> None:
    """300 us of copying alone. A kernel that the host launches behind the copy was held up by the host."""

    def make(trace: TraceBuilder, at: float) -> None:
        copy = trace.call("cudaMemcpyAsync", at + 10, at + 15)
        trace.copy("HtoD (Pinned -> Device)", at + 20, at + 320, copy, 1 << 24)
        trace.launch(at + launched - 5, at + launched, at + max(launched + 5, 325), at + 900)
        trace.call("cudaDeviceSynchronize", at + launched + 5, at + 905)

    found = seen("exposed-copies", steps(make))
    assert (found is not None) == fires
    if found is not None:
        assert found.evidence["exposed_s_per_step"] == pytest.approx((320 - launched) * 1e-6)


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


def finding_with(rule: str, trace: TraceBuilder, **rates: float) -> Finding:
    (found,) = find(
        Context(trace.build(), rates={f"matrix:{name}": rate for name, rate in rates.items()}),
        None,
        [get_rule(rule)],
    )
    return found


def test_small_products_do_not_reach_the_peak_so_their_saving_is_a_bound() -> None:
    """At 1 TFLOP/s 512x511x512 takes 268 µs; at 100 TFLOP/s it would take 2.7, which none of that size does."""
    odd = steps(product((512, 511, 512), "c10::BFloat16", HALF))
    assert finding_with("off-multiple-shapes", odd, bf16=1e12).saving_s == pytest.approx(532e-6, rel=0.01)
    assert finding_with("off-multiple-shapes", odd, bf16=1e12).bound == ""
    assert finding_with("off-multiple-shapes", odd, bf16=100e12).bound == "at most"
    single = steps(product((512, 512, 512), "float", SIMT))
    assert finding_with("tf32-off", single, tf32=1e12).bound == ""
    assert finding_with("tf32-off", single, tf32=100e12).bound == "at most"
    assert finding_with("tf32-off", single).bound == "at most"


def test_a_convolution_within_a_convolution_is_counted_once() -> None:
    """2 x 56 x 56 x 64 x 64 x 9 operations, said by torch's operator and again by cuDNN's within it."""

    def make(trace: TraceBuilder, at: float) -> None:
        shapes = {"Input Dims": [[1, 64, 56, 56], [64, 64, 3, 3], []], "Input type": ["float", "float", ""]}
        one = ["[1, 1]", "[1, 1]", "[1, 1]"]
        trace.op(
            "aten::convolution", at + 5, at + 40, **shapes, **{"Concrete Inputs": ["", "", "", *one, "False"]}
        )
        trace.op("aten::cudnn_convolution", at + 6, at + 30, **shapes, **{"Concrete Inputs": ["", "", *one, "1"]})
        trace.launch(at + 10, at + 15, at + 20, at + 820, SIMT)
        trace.call("cudaDeviceSynchronize", at + 45, at + 825)

    found = seen("tf32-off", steps(make))
    assert found is not None
    assert found.evidence["flops_per_step"] == 2 * 56 * 56 * 64 * 64 * 9
    assert [place.where for place in found.locations] == ["aten::convolution > aten::cudnn_convolution"]


@pytest.mark.parametrize(
    ("last", "seen_s"), [(SIMT, 300e-6), ("nhwcToNchwKernel<float>(int)", 300e-6), (TF32, None)]
)
def test_of_a_convolution_behind_a_transform_every_kernel_counts(last: str, seen_s: float | None) -> None:
    """As cuDNN does it in float32: half of the time is in kernels whose names know of no product."""

    def make(trace: TraceBuilder, at: float) -> None:
        shapes = {"Input Dims": [[1, 64, 56, 56], [64, 64, 3, 3], []], "Input type": ["float", "float", ""]}
        trace.op("aten::cudnn_convolution", at + 5, at + 40, **shapes)
        kernels = (
            "fft2d_r2c_64x64<float>(float2*)",
            "pointwise_mult_and_sum_complex<float2, 8, 4>(float2*)",
            last,
        )
        for i, kernel in enumerate(kernels):
            trace.launch(at + 10 + 5 * i, at + 13 + 5 * i, at + 20 + 100 * i, at + 120 + 100 * i, kernel)
        trace.call("cudaDeviceSynchronize", at + 45, at + 325)

    found = seen("tf32-off", steps(make, length=330))
    assert (found and sum(place.seconds for place in found.locations)) == (seen_s and pytest.approx(seen_s))


@pytest.mark.parametrize(
    ("kernel", "fires"),
    [("gemmSN_TN_kernel<float, 128, 16>(float)", True), ("RNN_blockPersist_fp_LSTM<float>(float)", False)],
)
def test_recurrent_layers_are_products_unless_one_kernel_does_it_all(kernel: str, fires: bool) -> None:
    """A persistent kernel is the same with TF32."""

    def make(trace: TraceBuilder, at: float) -> None:
        shapes = {"Input Dims": [[25, 16, 64], [[256, 64]]], "Input type": ["float", "TensorList"]}
        trace.op("aten::_cudnn_rnn", at + 5, at + 30, **shapes)
        trace.launch(at + 10, at + 15, at + 20, at + 820, kernel)
        trace.call("cudaDeviceSynchronize", at + 35, at + 825)

    found = seen("tf32-off", steps(make))
    assert (found is not None) == fires
    if found is not None:
        assert found.evidence["flops_per_step"] == 2 * 400 * 256 * 64


def test_tf32_off_is_silent_where_there_is_no_tf32() -> None:
    old: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": "Old GPU", "computeMajor": 7}]}
    assert seen("tf32-off", steps(product((512, 512, 512), "float", SIMT), **old)) is None


def test_a_trace_of_the_host_alone_has_no_findings_and_breaks_no_rule() -> None:
    trace = TraceBuilder()
    trace.step(0, 100)
    trace.op("aten::mm", 10, 90, **{"Input Dims": [[4, 4], [4, 4]], "Input type": ["float", "float"]})
    context = Context(trace.build())
    assert find(context) == []
    assert find(context, context) == []


# Of every rule that reads shapes or values.
ODDLY_SHAPED = [
    "mm", "conv2d", "convolution", "batch_norm", "add", "linear", "select", "linear", "index", "argmax", "linear",
    "slice", "cat", "cat", "embedding_dense_backward", "_embedding_bag_dense_backward", "_foreach_add_",
    "_fused_adam_", "matmul", "softmax", "matmul", "pow", "mean", "add", "rsqrt", "mul", "softmax", "log", "mul",
    "neg", "cat", "mul", "add", "bmm", "bmm",
]  # fmt: skip


@pytest.mark.parametrize(
    "dims",
    [
        None,
        "x",
        [[1, "a"]],
        [[-1, 2], [2, 3]],
        {},
        [[2, 3]],
        [[2**70, 1], [1, 1]],
        [[], [[]], 5],
        [[[1]], [[2, 0], [0]]],
        [[0, 0], [0, 0], [0]],
    ],
)
def test_odd_shapes_in_a_trace_break_no_rule(dims: Any) -> None:
    """A trace is anybody's file: what is no shape counts as none."""
    context = oddly_shaped(lambda _: dims, lambda _: dims)
    assert isinstance(find(context, context), list)


def oddly_shaped(dims: Callable[[int], Any], values: Callable[[int], Any]) -> Context:
    def make(trace: TraceBuilder, at: float) -> None:
        for i, name in enumerate(ODDLY_SHAPED):
            odd = {"Input Dims": dims(i), "Input type": ["float"] * 4, "Input Strides": dims(i)}
            trace.op(f"aten::{name}", at + 20 * i, at + 20 * i + 15, **odd, **{"Concrete Inputs": values(i)})
            trace.launch(at + 20 * i + 5, at + 20 * i + 9, at + 20 * i + 10, at + 20 * i + 18, SIMT)

    trace = steps(make, tare_padding={"share": 0.5, "batch": 2, "length": 2})
    return Context(trace.build(), rates={"bandwidth": 1e12, "matrix:fp32": 1e13})


small = st.integers(0, 3)
shape = st.lists(small, max_size=4)
value = st.one_of(st.integers(-5, 5).map(str), st.sampled_from(["", "None", "9223372036854775807", "1.5"]))


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.one_of(shape, st.lists(shape, max_size=3)), max_size=5), min_size=3, max_size=3),
    st.lists(st.lists(value, max_size=7), min_size=2, max_size=2),
)
def test_any_shapes_and_values_break_no_rule(dims: list[Any], values: list[list[str]]) -> None:
    """Every operator that rules read gets some of them, in turn."""
    context = oddly_shaped(lambda i: dims[i % 3], lambda i: values[i % 2])
    assert isinstance(find(context, context), list)
