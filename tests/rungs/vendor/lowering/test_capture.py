"""Calls in place are read as their functional variants, but only where nothing else views the changed memory."""

from typing import Any

import torch
from torch import nn

from tare.rungs.vendor.lowering.capture import capture, export, is_readable
from tare.rungs.vendor.lowering.capture import readable as made_readable
from tare.rungs.vendor.lowering.plan import ExecutionPlan


class AfterConvolution(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.function(self.conv(x), x)
        return y


def readable(function: Any) -> bool:
    with torch.no_grad():
        return is_readable(torch.export.export(AfterConvolution(function), (torch.randn(2, 2, 4, 4),)).graph)


def captured_ops(function: Any) -> list[tuple[str, list[str]]]:
    """Each op with the producers of its inputs, weights excepted."""
    plan = ExecutionPlan("f32", channels_last=False)
    with torch.no_grad():
        capture(AfterConvolution(function), (torch.randn(2, 2, 4, 4),), plan)
    producers = {id(op.outputs["y"].owner): op.kind for op in plan.ops} | {id(v): "input" for v in plan.inputs}
    ops = [
        (op.kind, [producers[id(v.owner)] for role, v in op.inputs.items() if role in ("x", "z")])
        for op in plan.ops
    ]
    return [*ops, ("output", [producers[id(v.owner)] for v in plan.outputs])]


def test_change_in_place_is_seen_through_the_old_name() -> None:
    def function(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch.relu_(y)
        y.add_(x)
        return torch.sigmoid(y)

    assert readable(function)
    assert captured_ops(function) == [
        ("conv", ["input"]),
        ("activation", ["conv"]),
        ("add", ["activation", "input"]),
        ("activation", ["add"]),
        ("output", ["activation"]),
    ]


def test_change_through_a_view_is_decomposed_by_torch() -> None:
    def function(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        torch.relu_(y.flatten(1))
        return torch.sigmoid(y)

    assert not readable(function)
    with torch.no_grad():
        exported = export(AfterConvolution(function), (torch.randn(2, 2, 4, 4),))
    assert not is_readable(exported.graph)
    assert is_readable(made_readable(exported).graph)
    # The sigmoid reads the changed memory, although it was applied to the base of the view.
    assert [kind for kind, _ in captured_ops(function)].count("activation") == 2


def test_change_of_a_viewed_tensor_is_decomposed_by_torch() -> None:
    def function(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        flat = y.flatten(1)
        torch.relu_(y)
        return torch.sigmoid(flat)

    assert not readable(function)


def test_view_of_a_changed_tensor_is_readable() -> None:
    assert readable(lambda y, x: torch.sigmoid(torch.relu_(y).flatten(1)))  # noqa: ARG005


def test_argument_may_have_another_name_in_place() -> None:
    """`dropout(input, ...)` and `dropout_(self, ...)`."""

    def function(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        return torch.relu(nn.functional.dropout(y, 0.5, training=False, inplace=True))

    assert readable(function)
    assert captured_ops(function) == [("conv", ["input"]), ("activation", ["conv"]), ("output", ["activation"])]


class Tied(nn.Module):  # type: ignore[misc]
    """One weight with two names, and a constant that is not a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.first(x)) + torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2)
        return y


def test_tied_weights_are_one_value() -> None:
    plan = ExecutionPlan("f32", channels_last=False)
    with torch.no_grad():
        capture(Tied(), (torch.randn(2, 4),), plan)
    linear = [op for op in plan.ops if op.kind == "linear"]
    assert linear[0].inputs["w"] is linear[1].inputs["w"]
    assert len(plan.parameters) == 3
    (add,) = (op for op in plan.ops if op.kind == "add")
    assert torch.equal(add.inputs["z"].content, torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2))
