"""Rules that no recorded trace triggers alone: each on a hand-made trace with the habit, and on its twin
without."""

from typing import Any

import pytest
from made import HALF, SIMT, TF32, kernels, product, seen, steps
from traces import TraceBuilder

from tare.findings.find import find
from tare.findings.finding import Finding
from tare.findings.registry import get_rule
from tare.findings.scene import Scene


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


def priced(rule: str, made: TraceBuilder, **rates: float) -> Finding:
    (found,) = find(
        Scene(made.build(), rates={f"matrix:{name}": rate for name, rate in rates.items()}), None, [get_rule(rule)]
    )
    return found


def test_small_products_do_not_reach_the_peak_and_their_price_stays_a_bound() -> None:
    """At 1 TFLOP/s 512x511x512 takes 268 µs; at 100 TFLOP/s it would take 2.7, which none of that size does."""
    odd = steps(product((512, 511, 512), "c10::BFloat16", HALF))
    assert priced("off-multiple-shapes", odd, bf16=1e12).gain_s == pytest.approx(532e-6, rel=0.01)
    assert not priced("off-multiple-shapes", odd, bf16=1e12).at_most
    assert priced("off-multiple-shapes", odd, bf16=100e12).at_most
    single = steps(product((512, 512, 512), "float", SIMT))
    assert not priced("tf32-off", single, tf32=1e12).at_most
    assert priced("tf32-off", single, tf32=100e12).at_most
    assert priced("tf32-off", single).at_most


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
    assert [place.where for place in found.places] == ["aten::convolution > aten::cudnn_convolution"]


def test_tf32_off_is_silent_where_there_is_no_tf32() -> None:
    old: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": "Old GPU", "computeMajor": 7}]}
    assert seen("tf32-off", steps(product((512, 512, 512), "float", SIMT), **old)) is None


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


def number(trace: TraceBuilder, at: float) -> float:
    """torch.tensor(2.0, device="cuda"), as recorded: 40 µs. Where it ends."""
    one: dict[str, Any] = {"Input Dims": [[]], "Input type": ["float"]}
    trace.op("aten::empty", at, at + 2)
    trace.op("aten::to", at + 4, at + 34, **one)
    copy = trace.call("cudaMemcpyAsync", at + 18, at + 23)
    trace.copy("HtoD (Pageable -> Device)", at + 24, at + 25, copy, 4)
    trace.call("cudaStreamSynchronize", at + 24, at + 29)
    trace.op("aten::lift_fresh", at + 36, at + 36.5, **one)
    trace.op("aten::detach_", at + 38, at + 40, **one)
    return at + 40


def launching(trace: TraceBuilder, name: str, at: float, **inputs: Any) -> float:
    """An operator of 20 µs with a kernel of 2. Where it ends."""
    trace.op(name, at, at + 20, **inputs)
    trace.launch(at + 10, at + 15, at + 16, at + 18)
    return at + 20


def test_with_a_number_on_the_device_goes_all_that_only_serves_it() -> None:
    """Ten times torch.tensor (40 µs), rsqrt of it (20), a product with it (20), 4 µs apart: the product stays."""
    single: dict[str, Any] = {"Input Dims": [[]], "Input type": ["float"]}
    both: dict[str, Any] = {"Input Dims": [[64, 512], []], "Input type": ["float", "float"]}

    def make(trace: TraceBuilder, at: float) -> None:
        at = launching(trace, "aten::mul", at + 4, **both)
        for _ in range(10):
            at = number(trace, at + 4)
            at = launching(trace, "aten::rsqrt", at + 4, **single)
            at = launching(trace, "aten::mul", at + 4, **both)

    found = seen("scalar-copies", steps(make))
    assert found is not None
    assert found.gain_s is not None
    # 40, 20, the 4 between them; and of the 4 before and behind them the usual, which is 4 or the parts' own 2.
    assert 10 * 64e-6 <= found.gain_s <= 10 * 68.5e-6


def test_a_search_in_a_mask_goes_as_a_whole() -> None:
    """y[mask]: 120 µs of 200 are aten::nonzero, whatever part of it is the wait; the gathering stays."""

    def make(trace: TraceBuilder, at: float) -> None:
        at = launching(trace, "aten::mul", at + 4) + 4
        trace.op("aten::index", at, at + 200)
        trace.op("aten::nonzero", at + 10, at + 130)
        trace.launch(at + 30, at + 35, at + 36, at + 38)
        copy = trace.call("cudaMemcpyAsync", at + 50, at + 56)
        trace.copy("DtoH (Device -> Pinned)", at + 57, at + 58, copy, 4)
        trace.call("cudaStreamSynchronize", at + 57, at + 65)
        trace.launch(at + 80, at + 85, at + 86, at + 88)
        trace.launch(at + 160, at + 165, at + 166, at + 168)
        launching(trace, "aten::mul", at + 204)

    found = seen("hidden-sync", steps(make))
    assert found is not None
    assert found.gain_s == pytest.approx(120e-6, abs=5e-6)


def checking(names: tuple[str, ...], kind: str, times: int = 4) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.frame("train.py(10): step", at, at + 990)
        for _ in range(times):
            for name in names:
                at = launching(trace, name, at + 4)
            at += 4
            trace.op("aten::is_nonzero", at, at + 25, **{"Input Dims": [[]], "Input type": [kind]})
            copy = trace.call("cudaMemcpyAsync", at + 6, at + 11)
            trace.copy("DtoH (Device -> Pinned)", at + 12, at + 13, copy, 1)
            trace.call("cudaStreamSynchronize", at + 12, at + 20)
            at = launching(trace, "aten::mul", at + 29)

    return make


@pytest.mark.parametrize(
    ("names", "kind", "each"),
    [
        # Comparison, all() and the question: 20 + 4 + 20 + 4 + 25, and one way of 4.
        (("aten::eq", "aten::all"), "bool", 77),
        # What is no truth value may be somebody else's: only the question goes.
        (("aten::norm",), "bool", 29),
        (("aten::eq", "aten::norm"), "bool", 29),
        (("aten::eq", "aten::all"), "float", 29),
    ],
)
def test_a_check_goes_with_the_comparisons_that_only_serve_it(
    names: tuple[str, ...], kind: str, each: float
) -> None:
    found = seen("repeated-sync", steps(checking(names, kind)))
    assert found is not None
    assert found.gain_s == pytest.approx(4 * each * 1e-6, rel=0.05)


def broken(own_us: float) -> Any:
    """Two compiled regions, the second within the first; between them the program works for so long."""

    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("TorchDynamo Cache Lookup", at + 1, at + 11)
        trace.op("Torch-Compiled Region: 0/0", at + 12, at + 300 + own_us)
        trace.annotation("## Call CompiledFxGraph a ##", at + 40, at + 110)
        at = launching(trace, "aten::addmm", at + 50)
        at = launching(trace, "aten::mm", at + 5)
        # 15 µs to the end of the first graph, then the program, then 50 µs to the first operator of the second.
        at += 15 + own_us
        trace.op("TorchDynamo Cache Lookup", at, at + 10)
        trace.op("Torch-Compiled Region: 1/0", at + 12, at + 100)
        trace.annotation("## Call CompiledFxGraph b ##", at + 40, at + 95)
        launching(trace, "aten::addmm", at + 50)

    return make


@pytest.mark.parametrize("own_us", [0, 300])
def test_a_graph_break_costs_the_way_out_of_one_graph_and_into_the_next(own_us: float) -> None:
    """15 µs out of the one, 50 into the other, and 5 back from it, whatever the program does between them."""
    found = seen("graph-breaks", steps(broken(own_us)))
    assert found is not None
    assert found.gain_s == pytest.approx(70e-6, abs=1e-6)
    assert found.at_least
