"""The modules and operators of the planted workloads. Imported where one of them is built, because torch is slow
to import."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch


class FaultyLayer(torch.nn.Module):  # type: ignore[misc]
    """A linear layer with a fault, which gets the number of the call and the output."""

    def __init__(self, fault: Callable[[int, Any], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self._fault = fault
        self._calls = 0

    def forward(self, x: Any) -> Any:
        self._calls += 1
        return self._fault(self._calls, self.layer(x))


class NoFloat64(torch.nn.Module):  # type: ignore[misc]
    """A layer that fails for large batches in float64, as a reference does that does not fit into memory."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(features, classes)

    def forward(self, x: Any) -> Any:
        if x.dtype == torch.float64 and x.shape[0] > 16:
            raise ValueError("a planted reference\nwith a second line")
        return self.layer(x)


# Two operators that the dispatcher and the profiler know by name, with a number of units of real work. The work is
# done in place, so that allocations and calls do not grow with it. torch.library.custom_op would import the
# compiler, which takes seconds in every process.
UNIT = 16384
_library = torch.library.Library("planted", "DEF")


def _operator(name: str, units: Callable[[], int]) -> Callable[[Any], Any]:
    _library.define(f"{name}(Tensor x) -> Tensor")
    _library.impl(name, lambda x: _work_for(x, units()), "CompositeExplicitAutograd")
    return getattr(torch.ops.planted, name)  # type: ignore[no-any-return]


@cache
def _numbers(device: torch.device) -> torch.Tensor:
    return torch.linspace(0, 1, 200 * 64 * UNIT, device=device)


def _work_for(x: torch.Tensor, units: int) -> torch.Tensor:
    if x.is_cuda:
        # More numbers instead of more calls, for which a GPU would wait. They are made once, because making them
        # takes a tenth of the step and would not grow with the units.
        numbers = _numbers(x.device)
        for _ in range(8):
            numbers[: units * 64 * UNIT].sin_()
        return x + 0 * numbers[0]
    numbers = torch.linspace(0, 1, UNIT)
    for _ in range(units):
        numbers.sin_()
    return x + 0 * numbers[0]


steady = _operator("steady", lambda: 100)
# 114 instead of 100 make the step of both operators 7 % longer.
work = _operator("work", lambda: int(os.environ.get("PLANTED_UNITS", "100")))
