"""Norms, activations, losses and rotary embeddings in pieces, with savings that are worked out by hand."""

from typing import Any

import pytest
from synthetic import device_bound, seen
from traces import TraceBuilder

# A tensor of 1 MiB, and one number for each of its rows.
LARGE: dict[str, Any] = {"Input Dims": [[256, 1024], []], "Input type": ["float", "Scalar"]}
ROWS: dict[str, Any] = {"Input Dims": [[256, 1], []], "Input type": ["float", "Scalar"]}
MIB = 2**20

Part = tuple[str, float, dict[str, Any]]
NORM: list[Part] = [
    ("pow", 20, LARGE), ("mean", 10, LARGE), ("add", 2, ROWS), ("rsqrt", 2, ROWS), ("mul", 20, LARGE),
    ("mul", 20, LARGE),
]  # fmt: skip


def chain(trace: TraceBuilder, at: float, parts: list[Part], shapes: bool = True) -> None:
    """A product of 100 us, the parts, and another product."""
    busy = at + 10.0
    for number, (name, length, inputs) in enumerate([("linear", 100, {}), *parts, ("linear", 100, {})]):
        start = at + 5 * number
        trace.op(f"aten::{name}", start, start + 4, **(inputs if shapes else {}))
        trace.launch(start + 1, start + 3, busy, busy + length, kernel=name)
        busy += length


@pytest.mark.parametrize(
    ("shapes", "rates", "saving", "bound"),
    [
        # pow moves 2 MiB in 20 us. The fused norm reads 1 MiB and writes 1: of 74 us 20 are left.
        (True, {}, 54, ""),
        # At 4 MiB in 20 us the fused one takes 10.
        (True, {"bandwidth": 4 * MIB / 20e-6}, 64, ""),
        # No kernel is shorter than the shortest: 2 us.
        (True, {"bandwidth": 1e15}, 72, ""),
        # Without shapes the longest kernel stays.
        (False, {}, 54, "at least"),
    ],
)
def test_the_saving_of_a_norm(shapes: bool, rates: dict[str, float], saving: float, bound: str) -> None:
    trace = device_bound(lambda trace, at: chain(trace, at, NORM, shapes), 500)
    found = seen("norm-by-hand", trace, rates=rates)
    assert found is not None
    assert found.saving_s == pytest.approx(saving * 1e-6, rel=0.02)
    assert found.bound == bound
    assert found.evidence["operators_each"] == 6
    assert found.evidence["chains_per_step"] == 1
    # The time of the whole chain.
    assert found.locations[0].seconds == pytest.approx(74e-6)
    assert {found.rule} == {rule for rule in BY_HAND if seen(rule, trace)}


BY_HAND = ("norm-by-hand", "activation-by-hand", "loss-by-hand", "rotary-by-hand")


@pytest.mark.parametrize(
    ("rule", "names", "left"),
    [
        # Each of these moves 2 MiB in 20 us; what is left reads and writes 1 MiB once.
        ("activation-by-hand", "mul pow mul add mul tanh add mul", 20),
        ("loss-by-hand", "exp sum log", 20),
        ("rotary-by-hand", "mul neg cat mul add", 20),
    ],
)
def test_the_saving_of_a_chain_is_what_the_fused_operator_does_not_move(
    rule: str, names: str, left: float
) -> None:
    parts: list[Part] = [(name, 20, LARGE) for name in names.split()]
    found = seen(rule, device_bound(lambda trace, at: chain(trace, at, parts), 500))
    assert found is not None
    assert found.saving_s == pytest.approx((20 * len(parts) - left) * 1e-6, rel=0.02)


def test_the_backward_pass_belongs_to_it() -> None:
    """Three operators forward, 60 us, of which 20 are left, and three backward, 90 us, of which 30 are."""

    def step(trace: TraceBuilder, at: float) -> None:
        busy, first = at + 10.0, round(at)
        for number, name in enumerate(("softplus", "tanh", "mul")):
            start, forward = at + 6 * number, {"Sequence number": first + number, "Fwd thread id": 0}
            trace.op(f"aten::{name}", start, start + 5, **LARGE, **forward)
            trace.launch(start + 1, start + 3, busy, busy + 20, kernel=name)
            busy += 20
        for number, name in enumerate(("Mul", "Tanh", "Softplus")):
            start = at + 20 + 6 * number
            back = {"Sequence number": first + 2 - number, "Fwd thread id": 1}
            trace.op(f"autograd::engine::evaluate_function: {name}Backward0", start, start + 5, 200, **back)
            trace.op(f"{name}Backward0", start + 0.5, start + 4.5, 200, **back)
            trace.launch(start + 1, start + 3, busy, busy + 30, kernel=f"{name} backward", thread=200)
            busy += 30
        # Of another forward operator.
        other = {"Sequence number": first + 70, "Fwd thread id": 1}
        trace.op("autograd::engine::evaluate_function: MmBackward0", at + 40, at + 45, 200, **other)
        trace.launch(at + 41, at + 43, busy, busy + 40, kernel="mm", thread=200)

    found = seen("activation-by-hand", device_bound(step, 400))
    assert found is not None
    assert found.saving_s == pytest.approx((40 + 60) * 1e-6, rel=0.02)


@pytest.mark.parametrize(
    ("function", "fires"), [("model.py(3): SwiGLU.forward", True), ("model.py(3): gate", False)]
)
def test_only_a_name_tells_silu_from_a_gate(function: str, fires: bool) -> None:
    def step(trace: TraceBuilder, at: float) -> None:
        trace.frame(function, at, at + 90)
        chain(trace, at, [("sigmoid", 20, LARGE), ("mul", 30, LARGE)])

    found = seen("activation-by-hand", device_bound(step, 400))
    assert (found is not None) == fires
    if found is not None:
        # 2 MiB at the rate of sigmoid.
        assert found.saving_s == pytest.approx(30e-6, rel=0.05)


ONE: dict[str, Any] = {"Input Dims": [[], []], "Input type": ["float", "Scalar"]}


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize(
    ("rule", "names"),
    [
        # A root of a mean squared error with a weight, and a mean of exponentials.
        ("norm-by-hand", ("sub pow mean", "sqrt mul")),
        ("loss-by-hand", ("exp sum", "div")),
    ],
)
def test_what_is_reduced_and_not_applied_is_no_norm_and_no_softmax(
    rule: str, names: tuple[str, str], shapes: bool
) -> None:
    large, small = (text.split() for text in names)
    for inputs, length, fires in ((ONE, 2, False), (LARGE, 20, True)):
        parts: list[Part] = [(name, 20, LARGE) for name in large] + [(name, length, inputs) for name in small]
        trace = device_bound(lambda trace, at, parts=parts: chain(trace, at, parts, shapes), 500)
        assert (seen(rule, trace) is not None) == fires


def test_a_chain_that_takes_no_time_is_no_finding() -> None:
    parts: list[Part] = [(name, 0.2, inputs) for name, _, inputs in NORM]
    assert seen("norm-by-hand", device_bound(lambda trace, at: chain(trace, at, parts), 500)) is None
