"""A run from plan to records: the one place where cases, executor and store meet. The CLI calls it."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Expansion, Skip, nothing_to_do
from tare.cases.options import QUICK, Options, make_options
from tare.cases.plan import Plan, expand_plan, fingerprint
from tare.commands.dry_run import Foresight
from tare.commands.measuring import Work
from tare.commands.recorded import comparable_records, count_taken
from tare.errors import Interrupted
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.preload import preload
from tare.execute.schedule import ladders
from tare.execute.session import open_executor
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.records.record import Record
from tare.report.ladder import Ladder, make_ladders
from tare.report.overview import ReusedRecords, overview, reused_line
from tare.report.progress import Progress
from tare.report.suite import make_suites
from tare.report.terminal import make_console, skipped_view
from tare.store.database import Store
from tare.store.journal import begin
from tare.store.journal import resume as earlier
from tare.store.run_lock import RunLocks

NOTHING_TO_RESUME = "nothing to resume: no run of these cases with these options on this machine; beginning anew"


class Outcome(msgspec.Struct):
    """What a run gave: a record for every case that ended, and what was skipped."""

    run: str
    store: str
    records: list[Record]
    skipped: list[Skip]
    left_out: dict[str, str]
    planned: int
    interrupted: bool = False
    # What was there before anything was measured, where that was asked for.
    recorded: ReusedRecords | None = None

    @property
    def ladders(self) -> list[Ladder]:
        return make_ladders(self.records)

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if any(record.failed for record in self.records) else 0

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "run": self.run,
            "store": self.store,
            "records": self.records,
            "skipped": self.skipped,
        }
        fields |= {"ladders": self.ladders, "suites": make_suites(self.records, self.skipped)}
        return fields | {"planned": self.planned, "recorded": self.recorded, "interrupted": self.interrupted}

    def render(self) -> None:
        console = make_console()
        for part in overview(self.records, self.skipped):
            console.print(part)
        if self.skipped or self.left_out:
            console.print(skipped_view(self.skipped, self.left_out))
        good = sum(record.ok for record in self.records)
        refused = sum(record.refused for record in self.records)
        cannot = f", {refused} cannot be run" if refused else ""
        console.print(
            f"{good} of {self.planned} cases measured{cannot}; run {self.run} in {self.store}", style="dim"
        )
        if self.recorded:
            console.print(reused_line(self.recorded), style="dim")
        if self.interrupted:
            console.print(str(Interrupted()), style="yellow")


class Measured(NamedTuple):
    """A run that has ended, and what it was measured with."""

    outcome: Outcome
    executor: LocalExecutor
    probed: Probed
    tell: OnStage


class Session:
    def __init__(
        self,
        plan: Plan,
        options: dict[str, Any],
        quick: bool,
        store: str | None,
        show_progress: bool,
        unwanted: Callable[[Case], str | None] = lambda _: None,
    ) -> None:
        self._plan, self._unwanted = open_plan(plan), unwanted
        # By itself first: what a flag puts in its place would hide what is wrong in the plan.
        make_options(dict(plan.options), f"the options of {plan.where}")
        base = {**plan.options, **(QUICK if quick else {}), **options}
        self._options: Options = make_options(base, f"the options of {plan.where}")
        self._quick = quick
        self._parity_asked = "parity" in {**plan.options, **options}
        self._store = store
        self._show_progress = show_progress

    @property
    def preload(self) -> tuple[str, ...]:
        """What the fork server of its workers imports once."""
        return preload_of(self._plan)

    def run(self, resume: bool, fail_fast: bool, recorded: bool = False) -> Outcome:
        with RunLocks() as run_locks, self.measured(resume, fail_fast, run_locks, recorded) as done:
            return done.outcome

    def foresee(self, recorded: bool = False) -> Foresight:
        """What `run` would measure."""
        with contextlib.ExitStack() as stack:
            progress = stack.enter_context(Progress(self._show_progress))
            executor = stack.enter_context(open_executor(self._options.isolation, progress.stage))
            probed = executor.probe()
            found = self._expand(LocalCatalogue(probed, self._unwanted))
            taken = self._taken(found, probed.environment) if recorded else []
            return Foresight(
                cases=found.cases,
                searched=found.searched,
                due=len(found.cases) - len(taken),
                rounds=self._options.rounds,
                budget_s=self._options.budget,
                skipped=found.skipped,
                left_out=_left_out(self._plan),
                recorded=count_taken(taken, len(found.cases)) if recorded else None,
            )

    def _taken(self, found: Expansion, environment: Environment) -> list[Record]:
        with Store(self._store) as store:
            wanted = set(found.cases)
            return [one for one in comparable_records(store, found.cases, environment) if one.case in wanted]

    @contextlib.contextmanager
    def measured(
        self, resume: bool, fail_fast: bool, run_locks: RunLocks, recorded: bool = False
    ) -> Iterator["Measured"]:
        """Measures the plan. Ctrl-C and SIGTERM end it early with what has been measured. `recorded` measures only
        what the store has no comparable record of. For a caller who goes on with the cases, the executor is there
        until the context ends: another would have to import torch again, and to compile."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self._store))
            progress = stack.enter_context(Progress(self._show_progress))
            stack.enter_context(terminable())
            executor = stack.enter_context(open_executor(self._options.isolation, progress.stage, self.preload))
            probed = executor.probe()
            catalogue = LocalCatalogue(probed, self._unwanted)
            found = self._expand(catalogue)
            planned = [*found.cases, *found.searched]
            self._options = self._leaner(planned)
            mark = self._mark(found, probed.environment, recorded)
            journal = earlier(store, mark, run_locks) if resume else None
            if journal is None:
                if resume:
                    progress.say(NOTHING_TO_RESUME)
                journal = begin(store, self._plan.name, mark, found.skipped, run_locks)
            if recorded:
                journal.take_over(comparable_records(store, planned, probed.environment))
            known = {record.id for record in journal.all_records()}
            progress.plans(dict.fromkeys(planned, self._options.rounds), [journal])
            work = Work(self._options, probed.environment, executor, journal, progress, fail_fast)
            outcome = Outcome(journal.run, store.where, [], found.skipped, _left_out(self._plan), len(planned))
            try:
                work.measure(found.cases)
                for ladder in ladders(found.searched):
                    work.search_and_measure(ladder, catalogue, found.skipped)
            except KeyboardInterrupt:
                outcome.interrupted = True
            else:
                journal.finish()
            outcome.records = [r for case in work.cases if (r := journal.record(case)) is not None]
            if recorded:
                taken = [record for record in outcome.records if record.id in known]
                outcome.recorded = count_taken(taken, outcome.planned)
            progress.goes_on()
            yield Measured(outcome, executor, probed, progress.stage)

    def _expand(self, catalogue: LocalCatalogue) -> Expansion:
        found = expand_plan(self._plan, catalogue)
        if not (found.cases or found.searched):
            raise nothing_to_do(found.skipped)
        return found

    def _leaner(self, planned: list[Case]) -> Options:
        """--quick does not prove eager against itself: a ladder of eager alone has nothing to be compared with,
        and the reference in float64 would cost more than all the rest."""
        alone = {case.rung for case in planned} == {"eager"}
        if self._quick and alone and not self._parity_asked:
            return msgspec.structs.replace(self._options, parity=False)
        return self._options

    def _mark(self, found: Expansion, environment: Environment, recorded: bool) -> str:
        """By which a run that was interrupted is found again."""
        # What was measured in another environment is no part of this run.
        about: list[Any] = [self._options.identity, environment.id]
        if found.searched:
            about.append([case.key for case in found.searched])
        if recorded:
            # It may hold no more than what was missing: whoever resumes a run of the whole plan means another.
            about.append("recorded")
        return fingerprint(found.cases, about)


def preload_of(plan: Plan) -> tuple[str, ...]:
    """What the fork server of a plan imports once."""
    grids = (*plan.grids, *plan.includes)
    names = {name for grid in grids for name in grid.workload}
    rungs = {rung for grid in grids for rung in grid.rung or ("a whole ladder",)}
    modes = {mode for grid in grids for mode in grid.mode}
    return preload(names, modes, rungs, {device for grid in grids for device in grid.device})


def preload_for(cases: Sequence[Case]) -> tuple[str, ...]:
    """The same for cases that are known one by one."""
    workloads, rungs = {c.workload for c in cases}, {c.rung for c in cases}
    return preload(workloads, {c.mode for c in cases}, rungs, {c.device for c in cases})


def _left_out(plan: Plan) -> dict[str, str]:
    """Rungs that a ladder without named rungs does not hold, and why."""
    from tare.rungs.registry import every_name, left_out

    if all(grid.rung is not None for grid in plan.grids):
        return {}
    return {name: why for name in every_name() if (why := left_out(name))}


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends a run like Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
