"""An executor for as long as a verb needs it; with a plan expanded for this machine, where it goes by a plan."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tare.cases.grid import Expansion, nothing_to_do
from tare.cases.plan import Plan, expand_plan
from tare.execute.catalogue import LocalCatalogue, check_plan
from tare.execute.executor import LocalExecutor, OnStage, make_launcher
from tare.execute.tasks import ErrandExecutor
from tare.protocol.messages import Probed
from tare.system.home import home
from tare.system.locks import machine_lock
from tare.system.scratch import scratch


@contextmanager
def open_executor(
    isolation: str,
    on_stage: OnStage = lambda _: None,
    preload: tuple[str, ...] = (),
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Iterator[ErrandExecutor]:
    """Its files and processes end with the context. The rest is as in `make_launcher`."""
    with scratch() as folder:
        executor = ErrandExecutor(make_launcher(isolation, preload, python, variables), folder, on_stage)
        try:
            yield executor
        finally:
            executor.close()


def renew_together(executors: Sequence[LocalExecutor], preload: tuple[str, ...]) -> None:
    """What the workers of each executor share is drawn anew: of all at once, and while nothing is measured."""
    launchers = [executor.launcher for executor in executors]
    with machine_lock(home()):
        for launcher in launchers:
            launcher.renew(preload)
        for launcher in launchers:
            launcher.settle()


@dataclass
class Workshop:
    executor: ErrandExecutor
    found: Expansion
    probed: Probed


@contextmanager
def workshop(plan: Plan, isolation: str, on_stage: OnStage = lambda _: None) -> Iterator[Workshop]:
    """Everything in it ends with the context. BadInput where nothing of the plan can run here."""
    check_plan(plan)
    with open_executor(isolation, on_stage) as executor:
        probed = executor.probe()
        found = expand_plan(plan, LocalCatalogue(probed))
        if not found.cases:
            raise nothing_to_do(found.skipped)
        yield Workshop(executor, found, probed)
