"""A check or a comparison from the command line to its report: where guard, executor and store meet."""

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import nothing_to_do
from tare.cases.options import Options, make_options
from tare.cases.plan import Plan, expand_plan, fingerprint
from tare.commands.check_profiles import add_profiles
from tare.commands.run import preload_for, terminable
from tare.errors import BadInput, TareError, unknown
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.executor import Executor, LocalExecutor, make_launcher
from tare.execute.runner import Side
from tare.execute.session import open_executor, renew_together
from tare.guard.changes import Report
from tare.guard.check import Check, Rules
from tare.guard.comparable import refuse
from tare.guard.compare import compare_selections
from tare.guard.metrics import Metric
from tare.guard.missing import refuse_impossible
from tare.guard.standing import another_version, differences_here, standing
from tare.guard.thresholds import Thresholds
from tare.protocol.messages import Probed
from tare.records.environment import VARIABLE, Difference, Environment, environment_differences
from tare.records.record import Record
from tare.report.progress import Progress
from tare.store.baselines import get_baseline
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin, resume
from tare.store.run_lock import RunLocks
from tare.store.selection import select_records

# Rounds of a first measurement, unless the plan or the command line says otherwise.
ROUNDS = 6


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """How the baseline's version is run: by another interpreter, with other variables, or both."""

    python: str = sys.executable
    variables: dict[str, str] = {}


def compare_stored(
    a: str,
    b: str,
    thresholds: Thresholds,
    metrics: Sequence[Metric],
    store: str | None,
    force: bool,
    rungs: Sequence[str],
    keep: Callable[[Case], bool],
) -> Report:
    """`tare compare`, of these rungs or all. `keep` says of a case whether it is wanted."""
    with Store(store, reading=True) as opened:
        sides = [select_records(text, opened) for text in (a, b)]
    there = {record.case.rung for side in sides for record in side.records}
    for rung in rungs:
        if rung not in there:
            raise unknown("rung", rung, there, "--rung")
    chosen = [
        side._replace(records=[r for r in side.records if keep(r.case) and (not rungs or r.case.rung in rungs)])
        for side in sides
    ]
    for before, side in zip(sides, chosen, strict=True):
        if not side.records:
            example = min(r.case.key for r in before.records)
            raise BadInput(f"no record of '{side.label}' is left by --rung and --case (one of it is {example})")
    if not {r.case.key for r in chosen[0].records} & {r.case.key for r in chosen[1].records}:
        raise BadInput(f"'{a}' and '{b}' have no case in common")
    return compare_selections(chosen[0], chosen[1], thresholds, metrics, force)


class CheckSession:
    def __init__(
        self, plan: Plan, options: dict[str, Any], rules: Rules, store: str | None, show_progress: bool
    ) -> None:
        self._plan, self._rules = open_plan(plan), rules
        base = {"rounds": ROUNDS, **plan.options, **options}
        self._options: Options = make_options(base, f"the options of {plan.where}")
        self._where, self._show_progress = store, show_progress

    def run(
        self, baseline: str | None, version: Version | None, again: bool, force: bool, diff: bool = True
    ) -> Report:
        """Measures the plan and compares it; Ctrl-C leaves what --resume goes on from. `diff` profiles what got
        worse, where both versions can be run."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self._where))
            stored = get_baseline(store, baseline) if baseline is not None else []
            progress = stack.enter_context(Progress(self._show_progress))
            stack.enter_context(terminable())
            now, probed = stack.enter_context(self._executor(progress, Version()))
            cases = self._cases(probed)
            refuse_impossible(cases, self._rules.metrics)
            executors = [(now, probed.environment)]
            if version is not None:
                before, was = stack.enter_context(self._executor(progress, version))
                executors.append((before, was.environment))
            compared = stored if baseline is None or version else standing(stored, cases, baseline)
            subjects, forced = self._differences(compared, probed.environment, version, executors, force)
            run_locks = stack.enter_context(RunLocks())
            opener = _Opener(self._plan, self._options, store, executors, cases, version, again, run_locks)

            def renew(due: Sequence[Case]) -> None:
                progress.stage("new processes")
                renew_together([executor for executor, _ in executors], preload_for(due))

            check = Check(self._options, self._rules, opener.sides, progress, stored, renew)
            try:
                report = check.run(cases)
                opener.finish()
                progress.goes_on()
                if version is not None and diff:
                    launchers = [make_launcher("spawn", (), v.python, v.variables) for v in (Version(), version)]
                    sides = [(one, launcher) for (one, _), launcher in zip(executors, launchers, strict=True)]
                    add_profiles(report, sides, progress.stage)
            except KeyboardInterrupt:
                report = Report(a="", b="", created="", cases=[], interrupted=True)
            report.a = _name(baseline, version)
            report.b = f"run {opener.run}"
            report.compared = [str(one) for one in subjects]
            report.forced = [str(one) for one in forced]
            report.notes += opener.taken_up
            return report

    @contextlib.contextmanager
    def _executor(self, progress: Progress, version: Version) -> Iterator[tuple[LocalExecutor, Probed]]:
        # This server only answers the probe: every round begins with one of its own, and what that needs.
        with open_executor(
            self._options.isolation, progress.stage, (), version.python, version.variables
        ) as executor:
            yield executor, _probe(executor, version)

    def _cases(self, probed: Probed) -> list[Case]:
        found = expand_plan(self._plan, LocalCatalogue(probed))
        if found.searched:
            raise BadInput("a check needs batches that are given: --batch auto would compare different work")
        if not found.cases:
            raise nothing_to_do(found.skipped)
        return found.cases

    def _differences(
        self,
        stored: list[Record],
        environment: Environment,
        version: Version | None,
        executors: Sequence[tuple[LocalExecutor, Environment]],
        force: bool,
    ) -> tuple[list[Difference], list[Difference]]:
        """What is compared and what hinders it, before anything is measured; refuses unless forced."""
        if version is None:
            subjects, hindrances = differences_here(stored, environment)
        else:
            meant = {f"flags.{VARIABLE}{name}" for name in version.variables}
            every = environment_differences(executors[1][1], environment)
            hindrances = [
                d for d in every if d.group == "machine" or (d.group == "flags" and d.field not in meant)
            ]
            subjects = [d for d in every if d not in hindrances]
            hindrances += another_version(stored, executors[1][1])
        if not force:
            refuse(hindrances)
        return subjects, hindrances


class _Opener:
    """The sides of each stage, with a run in the store for each: found again when a check is resumed."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        store: Store,
        executors: Sequence[tuple[LocalExecutor, Environment]],
        cases: Sequence[Case],
        version: Version | None,
        again: bool,
        run_locks: RunLocks,
    ) -> None:
        self._name, self._options, self._store = f"check {plan.name}", options, store
        self._executors, self._cases, self._again, self._run_locks = executors, list(cases), again, run_locks
        # Two versions may look alike as environments. And beside another version, or none, the rounds of this one
        # were not measured side by side with it.
        self._version = [version.python, sorted(version.variables.items())] if version else []
        self._journals: dict[str, list[StoreJournal]] = {}
        first = self.journals("first")[0]
        self.run = first.run
        self.taken_up: list[str] = []
        if first.complete_since:
            date = first.complete_since[:16].replace("T", " ")
            told = f"--resume took up a check that was complete, run {first.run} of {date}"
            self.taken_up = [f"{told}: without it, all is measured anew"]

    def sides(self, stage: str) -> list[Side[Executor]]:
        return [
            Side(executor, environment, journal)
            for (executor, environment), journal in zip(self._executors, self.journals(stage), strict=True)
        ]

    def journals(self, stage: str) -> list[StoreJournal]:
        if stage not in self._journals:
            # A run belongs to the one before it: a later night's confirmation is not this one's.
            belongs = "" if stage == "first" else self.run
            opened: list[StoreJournal] = []
            for i, (_, environment) in enumerate(self._executors):
                if opened:
                    belongs = opened[0].run
                what = ["check", stage, i, belongs, self._options.identity, environment.id, *self._version]
                opened.append(self._open(fingerprint(self._cases, what), i > 0, stage == "confirmation"))
            self._journals[stage] = opened
        return self._journals[stage]

    def finish(self) -> None:
        for journals in self._journals.values():
            for journal in journals:
                journal.finish()

    def _open(self, mark: str, baseline_side: bool, confirmation: bool) -> StoreJournal:
        earlier = resume(self._store, mark, self._run_locks) if self._again else None
        return earlier or begin(
            self._store,
            self._name,
            mark,
            [],
            self._run_locks,
            baseline_side=baseline_side,
            confirmation=confirmation,
        )


def reproduce(arguments: Sequence[str]) -> str:
    """The command that gives a report like this one. It measures anew, and overwrites no file: --resume would show
    what was measured here, and -o is a place on this machine."""
    kept = []
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-o", "--output"):
            next(rest, None)
        elif argument != "--resume" and not argument.startswith(("--output=", "-o")):
            kept.append(argument)
    return shlex.join(["tare", *kept])


def _probe(executor: LocalExecutor, version: Version) -> Probed:
    try:
        return executor.probe("this machine" if version == Version() else "the baseline's version")
    except (TareError, OSError) as error:
        if version == Version():
            raise
        remedy = f"install tare there, in its checkout: {version.python} -m pip install -c constraints.txt ."
        raise BadInput(f"cannot measure with {version.python}: {error} ({remedy})") from None


def _name(baseline: str | None, version: Version | None) -> str:
    if version is None:
        return f"baseline {baseline}, stored"
    how = [version.python] if version.python != sys.executable else []
    how += [f"{name}={value}" for name, value in version.variables.items()]
    named = f"baseline {baseline}" if baseline else "baseline"
    return f"{named}, side by side ({' '.join(how) or 'the same version'})"
