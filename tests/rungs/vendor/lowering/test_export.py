"""Calls in place are read as calls that are not: only where nobody else holds what they change."""

from typing import Any

import torch
from torch import nn

from tare.rungs.vendor.lowering.capture import capture
from tare.rungs.vendor.lowering.export import export, is_readable
from tare.rungs.vendor.lowering.plan import Step


class Calling(nn.Module):  # type: ignore[misc]
    """A convolution and whatever comes behind it."""

    def __init__(self, behind: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.behind = behind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.behind(self.conv(x), x)
        return made


def readable(behind: Any) -> bool:
    with torch.no_grad():
        return is_readable(torch.export.export(Calling(behind), (torch.randn(2, 2, 4, 4),)).graph)


def read(behind: Any) -> list[tuple[str, list[str]]]:
    """The operators, and for each its inputs that no weight is: by the operator that made them."""
    step = Step("f32", channels_last=False)
    with torch.no_grad():
        capture(Calling(behind), (torch.randn(2, 2, 4, 4),), step)
    makers = {id(op.outputs["y"].owner): op.kind for op in step.ops} | {id(v): "input" for v in step.inputs}
    kinds = [
        (op.kind, [makers[id(v.owner)] for role, v in op.inputs.items() if role in ("x", "z")]) for op in step.ops
    ]
    return [*kinds, ("output", [makers[id(v.owner)] for v in step.outputs])]


def test_what_is_changed_in_place_is_read_by_its_old_name_as_well() -> None:
    def behind(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch.relu_(y)
        y.add_(x)
        return torch.sigmoid(y)

    assert readable(behind)
    assert read(behind) == [
        ("conv", ["input"]),
        ("activation", ["conv"]),
        ("add", ["activation", "input"]),
        ("activation", ["add"]),
        ("output", ["activation"]),
    ]


def test_a_change_through_a_view_is_left_to_torch() -> None:
    def behind(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        torch.relu_(y.flatten(1))
        return torch.sigmoid(y)

    assert not readable(behind)
    kinds = [kind for kind, _ in read(behind)]
    # The sigmoid comes behind the change, though it was asked for of what the view was made of.
    assert kinds.count("activation") == 2


def test_a_change_of_what_a_view_was_made_of_is_left_to_torch() -> None:
    def behind(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        flat = y.flatten(1)
        torch.relu_(y)
        return torch.sigmoid(flat)

    assert not readable(behind)


def test_a_view_of_what_was_changed_before_is_no_trouble() -> None:
    assert readable(lambda y, x: torch.sigmoid(torch.relu_(y).flatten(1)))  # noqa: ARG005


def test_what_torch_has_rewritten_changes_nothing_in_place() -> None:
    def behind(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        return torch.relu_(y.flatten(1))

    with torch.no_grad():
        exported = export(Calling(behind), (torch.randn(2, 2, 4, 4),))
    assert is_readable(exported.graph)


def test_an_argument_may_have_another_name_in_place() -> None:
    """`dropout(input, ...)` and `dropout_(self, ...)`; one that drops nothing changes nothing."""

    def behind(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        return torch.relu(nn.functional.dropout(y, 0.5, training=False, inplace=True))

    assert readable(behind)
    assert read(behind) == [("conv", ["input"]), ("activation", ["conv"]), ("output", ["activation"])]


class Tied(nn.Module):  # type: ignore[misc]
    """One weight with two names, and a constant that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.second(self.first(x)) + torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2)
        return made


def test_a_weight_with_two_names_is_one_value() -> None:
    step, module = Step("f32", channels_last=False), Tied()
    with torch.no_grad():
        capture(module, (torch.randn(2, 4),), step)
    linear = [op for op in step.ops if op.kind == "linear"]
    assert linear[0].inputs["w"] is linear[1].inputs["w"]
    assert len(step.parameters) == 3
    (add,) = (op for op in step.ops if op.kind == "add")
    assert torch.equal(add.inputs["z"].content, torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2))
