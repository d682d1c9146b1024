"""`tare run`, from plan to records: where cases, executor and store meet."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.options import QUICK, Options, make_options
from tare.cases.plan import Expansion, Plan, Skip, fingerprint
from tare.errors import Interrupted
from tare.execute.batch_search import (
    choose_searching_case,
    find_earlier_search,
    search_batch,
    search_options,
    with_batch,
)
from tare.execute.catalogue import open_plan
from tare.execute.parallel import measure_cases
from tare.execute.projects import read_projects
from tare.execute.runner import FirstFailure, Target, ladders
from tare.execute.session import PlanSession, open_plan_session
from tare.records.environment import Environment
from tare.records.record import BatchSearch, Record, Round
from tare.report.ladder import make_ladders
from tare.report.numbers import several, stretch
from tare.report.overview import ReusedRecords, overview, planned_view, reused_line, skipped_view
from tare.report.progress import Progress
from tare.report.suite import make_suites
from tare.report.terminal import make_console
from tare.rungs.registry import every_name, excluded_by_default
from tare.store import schema
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.journal import resume as resume_run
from tare.store.selection import auxiliary_runs, newest_of_each_case
from tare.system.processes import interruptible
from tare.workloads import get_workload

NOTHING_TO_RESUME = "nothing to resume: no run of these cases with these options on this machine; starting anew"


class RunResult(msgspec.Struct, kw_only=True):
    """A record for every case that ended, and what was skipped."""

    run: str
    store: str
    records: list[Record] = []
    skipped: list[Skip]
    # Rungs that are not part of a ladder by default, with the reason.
    excluded_rungs: dict[str, str]
    planned: int
    interrupted: bool = False
    # The records of earlier runs that were used, if --recorded asked for them.
    recorded: ReusedRecords | None = None

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if any(record.failed for record in self.records) else 0

    def document(self) -> dict[str, Any]:
        suites = make_suites(self.records, self.skipped)
        return msgspec.structs.asdict(self) | {"ladders": make_ladders(self.records), "suites": suites}

    def render(self, columns: Sequence[str] = ()) -> None:
        console = make_console()
        console.print(overview(self.records, self.skipped, columns=columns))
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


class DryRun(msgspec.Struct, kw_only=True):
    """What a run would measure. `searched` are cases whose batch would be searched for first; `pending` of the
    others have no record yet."""

    cases: list[Case]
    searched: list[Case]
    pending: int
    rounds: int
    budget_s: float
    skipped: list[Skip]
    excluded_rungs: dict[str, str]
    recorded: ReusedRecords | None = None

    exit_code = 0

    def document(self) -> dict[str, Any]:
        keys = {name: [case.key for case in getattr(self, name)] for name in ("cases", "searched")}
        return msgspec.structs.asdict(self) | keys | {"sampling_s": self.sampling_s}

    @property
    def sampling_s(self) -> float:
        """The longest sampling time of all cases, without their preparation and the search for batches."""
        return (self.pending + len(self.searched)) * self.budget_s

    def render(self, columns: Sequence[str] = ()) -> None:  # noqa: ARG002 - nothing has been measured
        console = make_console()
        for cases, batch in ((self.cases, ""), (self.searched, "batch to be searched")):
            for ladder in ladders(cases):
                console.print(planned_view(ladder, batch))
        if self.skipped or self.excluded_rungs:
            console.print(skipped_view(self.skipped, self.excluded_rungs))
        planned = [*self.cases, *self.searched]
        count = f"{several(len(planned), 'case')} in {several(len(ladders(planned)), 'ladder')}"
        if self.recorded:
            console.print(reused_line(self.recorded), style="dim")
        rest = "searching and preparing" if self.searched else "preparing"
        sampling = f"at most {stretch(self.sampling_s)} of sampling besides {rest}"
        console.print(f"{count}, {several(self.rounds, 'round')} each: {sampling}")


class Session:
    def __init__(
        self,
        plan: Plan,
        options: dict[str, Any],
        quick: bool,
        store: str | None,
        show_progress: bool,
        unwanted: Callable[[Case], str | None] = lambda _: None,
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._tags = tags
        # The plan's own options are checked first: an option of the command line may hide a wrong one.
        make_options(dict(plan.options), f"the options of {plan.where}")
        base = {**plan.options, **(QUICK if quick else {}), **options}
        self._options: Options = make_options(base, f"the options of {plan.where}")
        with Progress(show_progress and bool(plan.models)) as progress:
            self._plan = open_plan(plan, progress.stage_changed, self._options.timeout)
        self._unwanted = unwanted
        self._parity_given = "parity" in {**plan.options, **options}
        self._quick, self.store, self._show_progress = quick, store, show_progress
        # Rungs that are not part of a ladder unless they are named, and why.
        self._excluded: dict[str, str] = {}
        if any(
            grid.rung is None and not all(get_workload(name).is_onnx for name in grid.workload)
            for grid in self._plan.grids
        ):
            self._excluded = {name: reason for name in every_name() if (reason := excluded_by_default(name))}

    def run(self, resume: bool, fail_fast: bool = False, recorded: bool = False) -> RunResult:
        with self.measured(resume, fail_fast, recorded) as (result, _):
            return result

    def dry_run(self, recorded: bool = False) -> DryRun:
        """What `run` would measure."""
        with (
            Progress(self._show_progress) as progress,
            self._open(progress, preload=False) as (_, probed, _, expansion),
        ):
            reused: list[Record] = []
            if recorded:
                with Store(self.store) as store:
                    cases = set(expansion.cases)
                    records = comparable_records(store, expansion.cases, probed.environment)
                    reused = [record for record in records if record.case in cases]
            return DryRun(
                cases=expansion.cases,
                searched=expansion.searched,
                pending=len(expansion.cases) - len(reused),
                rounds=self._options.rounds,
                budget_s=self._options.budget,
                skipped=expansion.skipped,
                excluded_rungs=self._excluded,
                recorded=count_reused(reused, len(expansion.cases)) if recorded else None,
            )

    @contextlib.contextmanager
    def measured(
        self, resume: bool, fail_fast: bool = False, recorded: bool = False
    ) -> Iterator[tuple[RunResult, PlanSession]]:
        """Measures the plan. Ctrl-C and SIGTERM end it early with what has been measured. With `recorded`, only
        cases without a comparable record in the store are measured. The executor lives until the context ends, for
        callers that go on with the cases: another one would have to import torch and to compile again."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self.store))
            progress = stack.enter_context(Progress(self._show_progress))
            stack.enter_context(interruptible())
            session = stack.enter_context(self._open(progress))
            executor, probed, _, expansion = session
            planned = [*expansion.cases, *expansion.searched]
            self._drop_needless_parity(planned)
            identity = self._identity(expansion, probed.environment, recorded)
            journal = resume_run(store, identity) if resume else None
            if journal is None:
                if resume:
                    progress.say(NOTHING_TO_RESUME)
                journal = begin(store, self._plan.name, identity, expansion.skipped)
            journal.on_problem = partial(progress.say, always=True)
            if recorded:
                journal.take_over(comparable_records(store, planned, probed.environment))
            earlier = {record.id for record in journal.all_records()}
            progress.planned(dict.fromkeys(planned, self._options.rounds), [journal])
            result = RunResult(
                run=journal.run,
                store=store.where,
                skipped=expansion.skipped,
                excluded_rungs=self._excluded,
                planned=len(planned),
            )
            searches: dict[Case, BatchSearch] = {}
            projects = read_projects(planned)
            target = Target(executor, probed.environment, journal, searches, fail_fast, projects, self._tags)
            begun: list[Case] = []
            try:
                with contextlib.suppress(FirstFailure):
                    for cases in self._portions(session, journal, searches, progress):
                        begun += cases
                        measure_cases(cases, self._options, target, progress)
            except KeyboardInterrupt:
                result.interrupted = True
            else:
                journal.finish()
            result.records = [record for case in begun if (record := journal.record(case)) is not None]
            if recorded:
                reused = [record for record in result.records if record.id in earlier]
                result.recorded = count_reused(reused, result.planned)
            progress.rounds_ended()
            yield result, session

    def _drop_needless_parity(self, planned: Sequence[Case]) -> None:
        """Eager is not compared with itself: the float64 reference would take longer than all the rest."""
        if self._quick and {case.rung for case in planned} == {"eager"} and not self._parity_given:
            self._options = msgspec.structs.replace(self._options, parity=False)

    def _open(self, progress: Progress, preload: bool = True) -> contextlib.AbstractContextManager[PlanSession]:
        isolation, build = self._options.isolation, not self._quick
        return open_plan_session(self._plan, isolation, progress.stage_changed, self._unwanted, build, preload)

    def _identity(self, expansion: Expansion, environment: Environment, recorded: bool) -> str:
        """By which --resume finds an interrupted run: the same cases, options and environment."""
        parts: list[Any] = [self._options.identity, environment.id]
        if expansion.searched:
            parts.append([case.key for case in expansion.searched])
        if recorded:
            # Such a run may hold only what was missing, so it is no earlier part of a run of the whole plan.
            parts.append("recorded")
        return fingerprint(expansion.cases, parts)

    def _portions(
        self,
        session: PlanSession,
        journal: StoreJournal,
        searches: dict[Case, BatchSearch],
        progress: Progress,
    ) -> Iterator[list[Case]]:
        """The cases to measure: first all that have a batch; then the others, ladder by ladder, at the batch that
        one rung of the ladder has found. The points of an interrupted search lead to the same choice again."""

        def measure_point(case: Case) -> Round:
            point = journal.point(case)
            if point is None:
                progress.search_started(case)
                point = session.executor.run_round(case, 0, search_options(self._options), check=False)
                journal.add_point(case, point)
            return point

        yield session.expansion.cases
        for ladder in ladders(session.expansion.searched):
            first = choose_searching_case(ladder)
            search = find_earlier_search(first, journal.all_records()) or search_batch(first, measure_point)
            searches[with_batch(first, search.chosen)] = search
            cases = [with_batch(case, search.chosen) for case in ladder]
            refusals = {case: refusal for case in cases if (refusal := session.catalogue.refusal(case))}
            session.expansion.skipped.extend(Skip(case.key, *refusal) for case, refusal in refusals.items())
            yield [case for case in cases if case not in refusals]


def comparable_records(store: Store, cases: Sequence[Case], environment: Environment) -> list[Record]:
    """The newest record of every case of these workloads that was measured in the same environment, newest first.
    A failure is a record like any other.

    Flags that a worker sets are not compared: they follow from the case and from tare's version. The auxiliary
    runs of a check measured another version, or confirmed a suspicion: they are not used.
    """
    workloads = {case.workload for case in cases}
    auxiliary = auxiliary_runs(store)
    records = [
        record
        for record in store.find(schema.records.c.workload.in_(workloads))
        if record.environment.base_id == environment.base_id and record.run not in auxiliary
    ]
    return sorted(newest_of_each_case(records), key=lambda record: record.created, reverse=True)


def count_reused(records: Sequence[Record], planned: int, now: datetime | None = None) -> ReusedRecords:
    """How many records are reused, how many of them are failures, and how old the oldest is."""
    oldest, age = min((record.created for record in records), default=None), None
    # The date of an imported record may be anything.
    with contextlib.suppress(ValueError, TypeError):
        age = max(((now or datetime.now(UTC)) - datetime.fromisoformat(oldest or "")).total_seconds(), 0.0)
    failed = sum(record.failure is not None for record in records)
    return ReusedRecords(taken=len(records), planned=planned, failed=failed, oldest=oldest, oldest_age_s=age)
