"""Every op of a plan knows the module that it comes from, in both ways of lowering and in both directions."""

from itertools import groupby

import pytest
from lowered import lowered

from tare.rungs.vendor.lowering.plan import ExecutionPlan


def modules(plan: ExecutionPlan, phase: str) -> list[str]:
    """Without repetitions, in the order of the plan."""
    return list(dict.fromkeys(op.origin.module for op in plan.ops if op.origin.phase == phase))


def test_library_calls_know_their_modules() -> None:
    plan = lowered("mnist_cnn", "train")
    assert modules(plan, "forward") == ["0", "1", "2", "3", "4", "5", "7", "9", ""]
    # The loss writes the gradient of its argument itself.
    assert modules(plan, "backward") == ["9", "7", "5", "4", "3", "2", "1", "0"]
    assert [op.kind for op in plan.ops if op.origin.phase == "update"] == ["sgd"]


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_generated_kernels_know_their_modules_and_operators(mode: str) -> None:
    plan = lowered("nanogpt", mode)
    assert plan.kernels
    forward = modules(plan, "forward")
    assert forward.index("blocks.0.first") < forward.index("blocks.0.attend") < forward.index("norm")
    # Whatever has no module is the loss.
    assert ("" in forward) == (mode == "train")
    operators = {name for op in plan.ops for name in op.origin.operators}
    assert "native_layer_norm" in operators
    assert any("softmax" in name for name in operators)
    # A profiler shows the names of kernels: they say what is computed.
    names = {op.attributes["kernel"] for op in plan.ops if op.kind == "fused"}
    assert any("native_layer_norm" in name for name in names), names
    assert any("softmax" in name for name in names), names
    assert all(name.isidentifier() and "__" not in name and f" {name}(" in plan.kernels for name in names)
    if mode == "train":
        phases = [phase for phase, _ in groupby(op.origin.phase for op in plan.ops)]
        assert (phases[0], phases[-1], set(phases)) == ("forward", "update", {"forward", "backward", "update"})
        assert {"blocks.0.attend", "blocks.1.first", "norm"} <= set(modules(plan, "backward"))
        assert "native_layer_norm_backward" in operators
    else:
        assert not modules(plan, "backward")
