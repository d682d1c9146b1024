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
from tare.protocol.jobs import CoverJob, RegistryJob
from tare.protocol.messages import Covered, Registered, Send
from tare.worker.preparation import open_program


def registries(_: RegistryJob, __: Send) -> Registered:
    return Registered(torch=str(torch.__version__), api=api_registry(), aten=aten_registry(), core=core_registry())


def cover(job: CoverJob, _: Send) -> Covered:
    """What a step calls. Operators and functions are intercepted in two programs, because some functions
    (attention's fast path) run other operators while Python functions are intercepted."""
    operators, functions = _calls(job.case, operator_calls), _calls(job.case, api_calls)
    api, aten = set(api_registry()), set(aten_registry())
    return Covered(
        api=sorted(functions & api),
        aten=sorted(operators & aten),
        core=sorted(core_of(operators, set(core_registry()))),
        others=sorted((functions - api) | (operators - aten)),
    )


def _calls(case: Case, intercept: Callable[[Callable[[], object]], set[str]]) -> set[str]:
    with open_program(case) as program:
        # The first step may call more than later ones: an optimizer creates its state, a cache is filled.
        return intercept(program.step) | intercept(program.step)
