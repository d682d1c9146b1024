"""Coverage: what a step of a case calls, and torch's registries to compare it with."""

from collections.abc import Callable

import torch

from tare.cases.case import Case
from tare.measure.interception import (
    api_calls,
    api_registry,
    aten_registry,
    core_of,
    core_registry,
    operator_calls,
)
from tare.protocol.messages import Covered, Registered
from tare.rungs import get_rung
from tare.rungs.torch.numerics import pin_flags
from tare.workloads import get_workload


def registries() -> Registered:
    return Registered(torch=str(torch.__version__), api=api_registry(), aten=aten_registry(), core=core_registry())


def cover(case: Case) -> Covered:
    """What a step calls. Operators and functions are intercepted in two programs, because some functions
    (attention's fast path) run other operators while Python functions are intercepted."""
    pin_flags(case)
    operators, functions = _calls(case, operator_calls), _calls(case, api_calls)
    api, aten = set(api_registry()), set(aten_registry())
    return Covered(
        api=sorted(functions & api),
        aten=sorted(operators & aten),
        core=sorted(core_of(operators, set(core_registry()))),
        others=sorted((functions - api) | (operators - aten)),
    )


def _calls(case: Case, intercept: Callable[[Callable[[], object]], set[str]]) -> set[str]:
    program = get_rung(case.rung).prepare(get_workload(case.workload), case)
    try:
        # The first step may call more than later ones: an optimizer creates its state, a cache is filled.
        return intercept(program.step) | intercept(program.step)
    finally:
        program.close()
