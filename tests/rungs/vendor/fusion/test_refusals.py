"""What cannot be lowered says which operators, and how many others."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.emit import emit_step
from tare.rungs.vendor.fusion.trace import trace
from tare.rungs.vendor.lowering.capture import export
from tare.rungs.vendor.lowering.plan import ExecutionPlan


class Stateful(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("state", torch.zeros(8))

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "random numbers": (lambda _, x: x + torch.rand_like(x), "no two rungs would draw the same"),
    "an operator": (lambda _, x: x.cumprod(-1), "no operator aten.cumprod.default"),
    "several": (lambda _, x: x.cumprod(-1) + x.logcumsumexp(-1) + x.digamma(), ", and 2 other operators or uses"),
    "integers as a result": (lambda _, x: (x > 0).long(), "a result of integers"),
    "an index of truth values": (
        lambda _, x: x * x[:, torch.tensor([True] * 4 + [False] * 4)].sum(),
        "truth values",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, reason = REFUSED[name]
    x = torch.randn(4, 8)
    with pytest.raises(Unsupported, match=re.escape(reason)):
        emitted(Stateful(function), x)


def emitted(module: nn.Module, x: torch.Tensor) -> None:
    plan = ExecutionPlan("f32", channels_last=False)
    emit_step(plan, trace(export(module, (x,)), module, (x,), False), (x,))
