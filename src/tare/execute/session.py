"""An executor for as long as a verb needs it; and, for a verb that takes a plan, its cases on this machine."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from tare.cases.case import Case
from tare.cases.plan import Expansion, Plan, expand_plan, nothing_to_do
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.launch import make_launcher
from tare.execute.preload import preload_of_plan
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
) -> Iterator[LocalExecutor]:
    """Its files and processes end with the context. For `python` and `variables` see `make_launcher`."""
    with scratch() as folder:
        launcher = make_launcher(isolation, preload, python, variables)
        executor = LocalExecutor(launcher, folder, on_stage, variables or {}, python)
        try:
            yield executor
        finally:
            executor.close()


def renew_launchers(executors: Sequence[LocalExecutor], preload: tuple[str, ...]) -> None:
    """Starts new fork servers for all executors at once, while nothing is measured."""
    with machine_lock(home(), executors[0].say_wait), ThreadPoolExecutor(len(executors)) as pool:
        for _ in pool.map(lambda executor: executor.launcher.renew(preload), executors):
            pass


class PlanSession(NamedTuple):
    executor: LocalExecutor
    probed: Probed
    catalogue: LocalCatalogue
    expansion: Expansion


@contextmanager
def open_plan_session(
    plan: Plan,
    isolation: str,
    on_stage: OnStage = lambda _: None,
    unwanted: Callable[[Case], str | None] = lambda _: None,
    build: bool = True,
    preload: bool = True,
) -> Iterator[PlanSession]:
    """The cases of a plan on this machine, and an executor for them; BadInput if nothing of the plan can run here.
    For `unwanted` and `build` see `LocalCatalogue`."""
    plan = open_plan(plan)
    with open_executor(isolation, on_stage, preload_of_plan(plan) if preload else ()) as executor:
        probed = executor.probe()
        catalogue = LocalCatalogue(probed, unwanted, build)
        expansion = expand_plan(plan, catalogue)
        if not (expansion.cases or expansion.searched):
            raise nothing_to_do(expansion.skipped)
        yield PlanSession(executor, probed, catalogue, expansion)
