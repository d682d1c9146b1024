"""The memory planner: concurrent values never overlap, and the arena is not much larger than it must be."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import lowered

from tare.cases.case import Mode
from tare.rungs.vendor.lowering.memory import ALIGNMENT, Lifetime, align, place
from tare.rungs.vendor.lowering.plan import ExecutionPlan, Value


def lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at one call."""
    last = max((life.last for life in lifetimes), default=-1)
    alive = (sum(x.bytes for x in lifetimes if x.first <= call <= x.last) for call in range(last + 1))
    return max(alive, default=0)


@st.composite
def any_lifetime(draw: st.DrawFn) -> Lifetime:
    first = draw(st.integers(0, 30))
    return Lifetime(draw(st.integers(1, 5000)), first, first + draw(st.integers(0, 10)))


@given(st.lists(any_lifetime(), max_size=40))
def test_concurrent_lifetimes_never_overlap(lifetimes: list[Lifetime]) -> None:
    offsets, total = place(lifetimes)
    for i, a in enumerate(lifetimes):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.bytes <= total
        for j, b in enumerate(lifetimes[:i]):
            concurrent = a.first <= b.last and b.first <= a.last
            disjoint = offsets[i] + a.bytes <= offsets[j] or offsets[j] + b.bytes <= offsets[i]
            assert disjoint or not concurrent


@given(st.lists(any_lifetime(), max_size=40))
def test_size_is_between_the_lower_bound_and_the_sum(lifetimes: list[Lifetime]) -> None:
    _, total = place(lifetimes)
    assert lower_bound(lifetimes) <= total <= sum(align(life.bytes) for life in lifetimes)


def test_chain_needs_two_buffers() -> None:
    """y = f(x) over and over: only two neighbours are alive at any call."""
    offsets, total = place([Lifetime(1024, i, i + 1) for i in range(10)])
    assert total == 2048
    assert set(offsets) == {0, 1024}


def test_no_values() -> None:
    assert place([]) == ([], 0)


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("name", ["mlp", "mnist_cnn", "lstm", pytest.param("resnet50", marks=pytest.mark.full)])
def test_values_of_a_plan_never_share_memory(name: str, mode: Mode) -> None:
    plan = lowered(name, mode)
    spans: dict[int, tuple[Value, int, int]] = {}
    for i, op in enumerate(plan.ops):
        for value in op.values():
            first = spans.get(id(value.owner), (value.owner, i, i))[1]
            spans[id(value.owner)] = (value.owner, first, i)
    arena = [span for span in spans.values() if span[0].region == "arena"]
    for i, (v, first, last) in enumerate(arena):
        assert v.offset + v.nbytes <= plan.regions["arena"]
        for w, other_first, other_last in arena[:i]:
            concurrent = first <= other_last and other_first <= last
            disjoint = v.offset + v.nbytes <= w.offset or w.offset + w.nbytes <= v.offset
            assert disjoint or not concurrent
    lifetimes = [Lifetime(v.nbytes, first, last) for v, first, last in arena]
    assert plan.regions["arena"] <= 1.2 * lower_bound(lifetimes) + 4096
    ranges = sorted(parameter_ranges(plan))
    assert all(x[0] != y[0] or x[2] <= y[1] for x, y in pairwise(ranges))


def parameter_ranges(plan: ExecutionPlan) -> list[tuple[str, int, int]]:
    values = {v for p in plan.parameters for v in (p.master, p.gradient) if v is not None}
    return [(v.region, v.offset, v.offset + v.nbytes) for v in values]


def test_lstm_weights_are_contiguous_in_cudnn_s_order() -> None:
    plan = lowered("lstm", "train")
    by_name = {p.name.partition(".")[2]: p.master for p in plan.parameters}
    order = [f"weight_{kind}_l{layer}" for layer in (0, 1) for kind in ("ih", "hh")]
    order += [f"bias_{kind}_l{layer}" for layer in (0, 1) for kind in ("ih", "hh")]
    offset = 0
    for name in order:
        master = by_name[name]
        assert master is not None
        assert master.offset == offset
        offset += master.nbytes
