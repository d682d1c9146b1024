"""A run from plan to records: the one place where cases, executor and store meet. The CLI calls it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.cases.options import QUICK, Options, make_options
from tare.cases.plan import Plan, expand_plan, fingerprint
from tare.errors import BadInput
from tare.execute.catalogue import LocalCatalogue
from tare.execute.executor import LocalExecutor, make_launcher
from tare.execute.runner import run_cases
from tare.execute.scratch import scratch
from tare.records.environment import Environment
from tare.records.record import Record
from tare.report.ladder import Ladder, make_ladders
from tare.report.progress import Progress
from tare.report.terminal import ladder_view, make_console, skipped_view
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin, resume
from tare.workloads import all_workloads


class Outcome(msgspec.Struct):
    """What a run gave: a record for every case that ended, and what was skipped."""

    run: str
    store: str
    records: list[Record]
    skipped: list[Skip]
    left_out: dict[str, str]
    planned: int
    interrupted: bool = False

    @property
    def ladders(self) -> list[Ladder]:
        return make_ladders(self.records)

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if any(not record.ok for record in self.records) else 0

    def document(self) -> dict[str, Any]:
        fields = {"run": self.run, "store": self.store, "records": self.records, "skipped": self.skipped}
        return fields | {"ladders": self.ladders, "planned": self.planned, "interrupted": self.interrupted}

    def render(self) -> None:
        console = make_console()
        for ladder in self.ladders:
            console.print(ladder_view(ladder))
            console.print()
        if self.skipped:
            console.print(skipped_view(self.skipped))
        for name, why in self.left_out.items():
            console.print(f"  {name} left out: {why}", style="dim")
        good = sum(record.ok for record in self.records)
        console.print(f"{good} of {self.planned} cases measured; run {self.run} in {self.store}", style="dim")
        if self.interrupted:
            console.print("interrupted: the same command with --resume goes on from here", style="yellow")


class Session:
    def __init__(
        self, plan: Plan, options: dict[str, Any], quick: bool, store: str | None, show_progress: bool
    ) -> None:
        self._plan = plan
        base = {**plan.options, **(QUICK if quick else {}), **options}
        self._options: Options = make_options(base, f"the options of {plan.name}")
        self._store = store
        self._show_progress = show_progress

    def run(self, resume: bool, fail_fast: bool) -> Outcome:
        """Measures the plan. Ctrl-C and SIGTERM end it early with what has been measured."""
        check_names(self._plan)
        store = Store(self._store)
        with scratch() as folder, Progress(self._show_progress) as progress, terminable():
            launcher = make_launcher(self._options.isolation, preload(self._plan))
            executor = LocalExecutor(launcher, folder, progress.stage)
            try:
                progress.stage("looking at this machine")
                probed = executor.probe()
                found = expand_plan(self._plan, LocalCatalogue(probed))
                if not found.cases:
                    raise BadInput(nothing(found.skipped))
                journal = self._journal(store, found.cases, found.skipped, probed.environment, resume)
                progress.plan(found.cases, self._options.rounds, journal)
                outcome = Outcome(
                    journal.run, store.where, [], found.skipped, _left_out(self._plan), len(found.cases)
                )
                try:
                    run_cases(
                        found.cases, self._options, probed.environment, executor, journal, progress, fail_fast
                    )
                except KeyboardInterrupt:
                    outcome.interrupted = True
                else:
                    journal.finish()
                outcome.records = [r for case in found.cases if (r := journal.record(case)) is not None]
                return outcome
            finally:
                executor.close()
                store.close()

    def _journal(
        self, store: Store, cases: list[Case], skipped: list[Skip], environment: Environment, again: bool
    ) -> StoreJournal:
        # What was measured in another environment is no part of this run.
        mark = fingerprint(cases, [self._options, environment.id])
        earlier = resume(store, mark) if again else None
        return earlier or begin(store, self._plan.name, mark, skipped)


def preload(plan: Plan) -> tuple[str, ...]:
    """Packages that the plan's workloads need: imported once in the fork server instead of in every worker."""
    known = all_workloads()
    names = {name for grid in (*plan.grids, *plan.includes) for name in grid.workload}
    return tuple(sorted({package for name in names for package in known[name].requires}))


def check_names(plan: Plan) -> None:
    """Refuses an unknown workload or rung before anything slow begins."""
    from tare.errors import unknown
    from tare.rungs import get_rung

    known = all_workloads()
    for grid in (*plan.grids, *plan.includes):
        for name in grid.workload:
            if name not in known:
                raise unknown("workload", name, known, plan.name)
        for rung in grid.rung or ():
            get_rung(rung)


def _left_out(plan: Plan) -> dict[str, str]:
    """Rungs that a ladder without named rungs does not hold, and why."""
    from tare.rungs.registry import every_name, left_out

    if all(grid.rung is not None for grid in plan.grids):
        return {}
    return {name: why for name in every_name() if (why := left_out(name))}


def nothing(skipped: list[Skip]) -> str:
    if not skipped:
        return "the plan excludes all of its cases"
    return f"nothing to measure: all {len(skipped)} combinations are impossible here ({skipped[0].reason})"


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends a run like Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
