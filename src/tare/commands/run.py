"""`tare run`, from plan to records: where cases, executor and store meet."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Expansion, Skip, nothing_to_do
from tare.cases.options import QUICK, Options, make_options
from tare.cases.plan import Plan, expand_plan, fingerprint
from tare.commands.dry_run import DryRun
from tare.commands.recorded import comparable_records, count_reused
from tare.errors import Interrupted
from tare.execute.batch_search import (
    choose_searching_case,
    find_earlier_search,
    search_batch,
    search_options,
    with_batch,
)
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.executor import LocalExecutor, OnStage
from tare.execute.parallel import measure_cases
from tare.execute.preload import preload_of_plan
from tare.execute.runner import FirstFailure, Target, ladders
from tare.execute.session import open_executor
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.records.record import BatchSearch, Record, Round
from tare.report.ladder import Ladder, make_ladders
from tare.report.overview import ReusedRecords, overview, reused_line
from tare.report.progress import Progress
from tare.report.suite import make_suites
from tare.report.terminal import make_console, skipped_view
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.journal import resume as resume_run
from tare.system.processes import interruptible

NOTHING_TO_RESUME = "nothing to resume: no run of these cases with these options on this machine; starting anew"


class RunResult(msgspec.Struct):
    """A record for every case that ended, and what was skipped."""

    run: str
    store: str
    records: list[Record]
    skipped: list[Skip]
    # Rungs that are not part of a ladder by default, with the reason.
    excluded_rungs: dict[str, str]
    planned: int
    interrupted: bool = False
    # The records of earlier runs that were used, if --recorded asked for them.
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
        return {
            "run": self.run,
            "store": self.store,
            "records": self.records,
            "skipped": self.skipped,
            "ladders": self.ladders,
            "suites": make_suites(self.records, self.skipped),
            "planned": self.planned,
            "recorded": self.recorded,
            "interrupted": self.interrupted,
        }

    def render(self) -> None:
        console = make_console()
        for part in overview(self.records, self.skipped):
            console.print(part)
        if self.skipped or self.excluded_rungs:
            console.print(skipped_view(self.skipped, self.excluded_rungs))
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


class MeasuredRun(NamedTuple):
    """A run that has ended, and what it was measured with."""

    result: RunResult
    executor: LocalExecutor
    probed: Probed
    on_stage: OnStage


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
        # The plan's own options are checked first: an option of the command line may hide a wrong one.
        make_options(dict(plan.options), f"the options of {plan.where}")
        base = {**plan.options, **(QUICK if quick else {}), **options}
        self._options: Options = make_options(base, f"the options of {plan.where}")
        self._quick = quick
        self._parity_given = "parity" in {**plan.options, **options}
        self._store = store
        self._show_progress = show_progress

    def run(self, resume: bool, fail_fast: bool = False, recorded: bool = False) -> RunResult:
        with self.measured(resume, fail_fast, recorded) as measured:
            return measured.result

    def dry_run(self, recorded: bool = False) -> DryRun:
        """What `run` would measure."""
        with (
            Progress(self._show_progress) as progress,
            open_executor(self._options.isolation, progress.stage_changed) as executor,
        ):
            probed = executor.probe()
            expansion = self._expand(self._catalogue(probed))
            reused: list[Record] = []
            if recorded:
                with Store(self._store) as store:
                    records = comparable_records(store, expansion.cases, probed.environment)
                    cases = set(expansion.cases)
                    reused = [record for record in records if record.case in cases]
            return DryRun(
                cases=expansion.cases,
                searched=expansion.searched,
                pending=len(expansion.cases) - len(reused),
                rounds=self._options.rounds,
                budget_s=self._options.budget,
                skipped=expansion.skipped,
                excluded_rungs=_excluded_rungs(self._plan),
                recorded=count_reused(reused, len(expansion.cases)) if recorded else None,
            )

    @contextlib.contextmanager
    def measured(self, resume: bool, fail_fast: bool, recorded: bool = False) -> Iterator[MeasuredRun]:
        """Measures the plan. Ctrl-C and SIGTERM end it early with what has been measured. With `recorded`, only
        cases without a comparable record in the store are measured. The executor lives until the context ends, for
        callers that go on with the cases: another one would have to import torch and to compile again."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self._store))
            progress = stack.enter_context(Progress(self._show_progress))
            stack.enter_context(interruptible())
            preload = preload_of_plan(self._plan)
            executor = stack.enter_context(open_executor(self._options.isolation, progress.stage_changed, preload))
            probed = executor.probe()
            catalogue = self._catalogue(probed)
            expansion = self._expand(catalogue)
            planned = [*expansion.cases, *expansion.searched]
            self._options = self._without_needless_parity(planned)
            identity = self._identity(expansion, probed.environment, recorded)
            journal = resume_run(store, identity) if resume else None
            if journal is None:
                if resume:
                    progress.say(NOTHING_TO_RESUME)
                journal = begin(store, self._plan.name, identity, expansion.skipped)
            if recorded:
                journal.take_over(comparable_records(store, planned, probed.environment))
            earlier = {record.id for record in journal.all_records()}
            progress.planned(dict.fromkeys(planned, self._options.rounds), [journal])
            excluded = _excluded_rungs(self._plan)
            result = RunResult(journal.run, store.where, [], expansion.skipped, excluded, len(planned))
            searches: dict[Case, BatchSearch] = {}
            target = Target(executor, probed.environment, journal, searches, fail_fast)
            measurement = _Measurement(self._options, target, journal, progress, searches)
            try:
                with contextlib.suppress(FirstFailure):
                    measurement.measure(expansion.cases)
                    for ladder in ladders(expansion.searched):
                        measurement.search_and_measure(ladder, catalogue, expansion.skipped)
            except KeyboardInterrupt:
                result.interrupted = True
            else:
                journal.finish()
            result.records = [r for case in measurement.cases if (r := journal.record(case)) is not None]
            if recorded:
                reused = [record for record in result.records if record.id in earlier]
                result.recorded = count_reused(reused, result.planned)
            progress.rounds_ended()
            yield MeasuredRun(result, executor, probed, progress.stage_changed)

    def _catalogue(self, probed: Probed) -> LocalCatalogue:
        return LocalCatalogue(probed, self._unwanted, build=not self._quick)

    def _expand(self, catalogue: LocalCatalogue) -> Expansion:
        expansion = expand_plan(self._plan, catalogue)
        if not (expansion.cases or expansion.searched):
            raise nothing_to_do(expansion.skipped)
        return expansion

    def _without_needless_parity(self, planned: list[Case]) -> Options:
        """--quick does not compare eager with itself: the float64 reference would take longer than all the
        rest."""
        only_eager = {case.rung for case in planned} == {"eager"}
        if self._quick and only_eager and not self._parity_given:
            return msgspec.structs.replace(self._options, parity=False)
        return self._options

    def _identity(self, expansion: Expansion, environment: Environment, recorded: bool) -> str:
        """By which --resume finds an interrupted run: the same cases, options and environment."""
        parts: list[Any] = [self._options.identity, environment.id]
        if expansion.searched:
            parts.append([case.key for case in expansion.searched])
        if recorded:
            # Such a run may hold only what was missing, so it is no earlier part of a run of the whole plan.
            parts.append("recorded")
        return fingerprint(expansion.cases, parts)


class _Measurement:
    """Measures cases, and searches for the batch of those that have none yet."""

    def __init__(
        self,
        options: Options,
        target: Target[LocalExecutor],
        journal: StoreJournal,
        progress: Progress,
        searches: dict[Case, BatchSearch],
    ) -> None:
        self._options, self._target, self._journal = options, target, journal
        self._progress, self._searches = progress, searches
        self.cases: list[Case] = []

    def measure(self, cases: list[Case]) -> None:
        self.cases += cases
        measure_cases(cases, self._options, self._target, self._progress)

    def search_and_measure(self, ladder: list[Case], catalogue: LocalCatalogue, skipped: list[Skip]) -> None:
        """Finds a batch on one rung of the ladder, and measures all of its rungs at that batch."""
        first = choose_searching_case(ladder)
        search = find_earlier_search(first, self._journal.all_records()) or search_batch(first, self._point)
        cases = []
        for case in (with_batch(case, search.chosen) for case in ladder):
            refusal = catalogue.refusal(case)
            if refusal:
                skipped.append(Skip(case.key, *refusal))
            else:
                cases.append(case)
        self._searches[with_batch(first, search.chosen)] = search
        self.measure(cases)

    def _point(self, case: Case) -> Round:
        """One batch of a search. The points of an interrupted search lead to the same choice again."""
        known = self._journal.point(case)
        if known is not None:
            return known
        self._progress.search_started(case)
        point = self._target.executor.run_round(case, 0, search_options(self._options), check=False)
        self._journal.add_point(case, point)
        return point


def _excluded_rungs(plan: Plan) -> dict[str, str]:
    """Rungs that are not part of a ladder unless they are named, and why."""
    from tare.rungs.registry import every_name, excluded_by_default

    if all(grid.rung is not None for grid in plan.grids):
        return {}
    return {name: reason for name in every_name() if (reason := excluded_by_default(name))}
