"""What a remedy removes along with its inefficiency: savings on synthetic traces, with answers worked out by
hand."""

from typing import Any

import pytest
from synthetic import seen, steps
from traces import TraceBuilder


def number(trace: TraceBuilder, at: float) -> float:
    """torch.tensor(2.0, device="cuda"), as recorded: 40 µs. Returns when it ends."""
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
    """An operator of 20 µs with a kernel of 2. Returns when it ends."""
    trace.op(name, at, at + 20, **inputs)
    trace.launch(at + 10, at + 15, at + 16, at + 18)
    return at + 20


def test_removing_a_scalar_copy_removes_what_only_uses_the_scalar() -> None:
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
    assert found.saving_s is not None
    # 40, 20, the 4 between them, and one usual gap, which is 4 or the 2 between the parts.
    assert 10 * 64e-6 <= found.saving_s <= 10 * 68.5e-6


def test_a_search_in_a_mask_is_removed_entirely() -> None:
    """y[mask]: 120 µs of 200 are aten::nonzero, of which the wait is a part; the gathering stays."""

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
    assert found.saving_s == pytest.approx(120e-6, abs=5e-6)


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
        # Comparison, all() and is_nonzero: 20 + 4 + 20 + 4 + 25, and one gap of 4.
        (("aten::eq", "aten::all"), "bool", 77),
        # A result that is no truth value may have other users: only is_nonzero is removed.
        (("aten::norm",), "bool", 29),
        (("aten::eq", "aten::norm"), "bool", 29),
        (("aten::eq", "aten::all"), "float", 29),
    ],
)
def test_a_check_is_removed_with_the_comparisons_that_only_it_uses(
    names: tuple[str, ...], kind: str, each: float
) -> None:
    found = seen("repeated-sync", steps(checking(names, kind)))
    assert found is not None
    assert found.saving_s == pytest.approx(4 * each * 1e-6, rel=0.05)


def broken(own_us: float) -> Any:
    """Two compiled regions, the second within the first; between them the program works for `own_us`."""

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
def test_a_graph_break_costs_leaving_one_graph_and_entering_the_next(own_us: float) -> None:
    """15 µs out of the one, 50 into the other, and 5 back from it, whatever the program does between them."""
    found = seen("graph-breaks", steps(broken(own_us)))
    assert found is not None
    assert found.saving_s == pytest.approx(70e-6, abs=1e-6)
    assert found.bound == "at least"
