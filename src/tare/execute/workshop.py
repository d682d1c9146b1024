"""A machine looked at, a plan expanded for it, and an executor: what a verb needs that sends workers on
errands."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tare.cases.grid import Expansion
from tare.cases.plan import Plan, expand_plan
from tare.errors import BadInput
from tare.execute.catalogue import LocalCatalogue
from tare.execute.errand import ErrandExecutor
from tare.execute.executor import OnStage, make_launcher
from tare.execute.protocol import Probed
from tare.execute.scratch import scratch


@dataclass
class Workshop:
    executor: ErrandExecutor
    found: Expansion
    probed: Probed


@contextmanager
def workshop(plan: Plan, isolation: str, on_stage: OnStage = lambda _: None) -> Iterator[Workshop]:
    """Everything in it ends with the context. BadInput where nothing of the plan can run here."""
    with scratch() as folder:
        executor = ErrandExecutor(make_launcher(isolation), folder, on_stage)
        try:
            on_stage("looking at this machine")
            probed = executor.probe()
            found = expand_plan(plan, LocalCatalogue(probed))
            if not found.cases:
                reason = found.skipped[0].reason if found.skipped else "the plan excludes all of its cases"
                raise BadInput(f"nothing to do: {reason}")
            yield Workshop(executor, found, probed)
        finally:
            executor.close()
