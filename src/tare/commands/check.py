"""`tare check` and `tare compare` from request to report."""

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import nothing_to_do
from tare.cases.options import Options, make_options
from tare.cases.plan import Plan, expand_plan, fingerprint
from tare.commands.check_profiles import add_profiles
from tare.errors import BadInput, TareError, unknown
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.executor import Executor, LocalExecutor
from tare.execute.launch import make_launcher
from tare.execute.preload import preload_of_cases
from tare.execute.runner import Target
from tare.execute.session import open_executor, renew_launchers
from tare.guard.changes import Report
from tare.guard.check import CheckStage, RegressionCheck, Rules
from tare.guard.comparable import (
    baseline_differences,
    baseline_records,
    refuse_differences,
    version_differences,
)
from tare.guard.compare import compare_selections
from tare.guard.metrics import require_possible
from tare.guard.thresholds import key_matches
from tare.protocol.messages import Probed
from tare.records.environment import VARIABLE, Difference, Environment, environment_differences
from tare.records.record import Record
from tare.report.progress import Progress
from tare.store.baselines import get_baseline
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.journal import resume as resume_run
from tare.store.selection import select_records
from tare.system.processes import interruptible

# Rounds of the first stage, unless the plan or the command line sets them.
ROUNDS = 6


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """How the baseline's version is run: by another interpreter, with other variables, or both."""

    python: str = sys.executable
    variables: dict[str, str] = {}


def compare_stored(
    a: str, b: str, rules: Rules, store: str | None, force: bool, rungs: Sequence[str], pattern: str | None
) -> Report:
    """`tare compare` of these rungs, or all, and of the cases whose keys match the pattern."""
    with Store(store, reading=True) as opened:
        sides = [select_records(text, opened) for text in (a, b)]
    available = {record.case.rung for side in sides for record in side.records}
    for rung in rungs:
        if rung not in available:
            raise unknown("rung", rung, available, "--rung")

    def is_chosen(case: Case) -> bool:
        return (not rungs or case.rung in rungs) and (pattern is None or key_matches(case.key, pattern))

    chosen = [side._replace(records=[r for r in side.records if is_chosen(r.case)]) for side in sides]
    for before, side in zip(sides, chosen, strict=True):
        if not side.records:
            example = min(r.case.key for r in before.records)
            raise BadInput(f"no record of '{side.label}' matches --rung and --case (one of them is {example})")
    if not {r.case.key for r in chosen[0].records} & {r.case.key for r in chosen[1].records}:
        raise BadInput(f"'{a}' and '{b}' have no case in common")
    return compare_selections(*chosen, rules.thresholds, rules.metrics, force)


class CheckSession:
    def __init__(
        self, plan: Plan, options: dict[str, Any], rules: Rules, store: str | None, show_progress: bool
    ) -> None:
        self._plan, self._rules = open_plan(plan), rules
        base = {"rounds": ROUNDS, **plan.options, **options}
        self._options: Options = make_options(base, f"the options of {plan.where}")
        self._where, self._show_progress = store, show_progress

    def run(
        self, baseline: str | None, version: Version | None, resume: bool, force: bool, diff: bool = True
    ) -> Report:
        """Measures the plan and compares it. After Ctrl-C, --resume continues. `diff` profiles regressed cases if
        both versions can be run."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self._where))
            stored = get_baseline(store, baseline) if baseline is not None else []
            progress = stack.enter_context(Progress(self._show_progress))
            stack.enter_context(interruptible())
            now, probed = stack.enter_context(self._executor(progress, Version()))
            cases = self._cases(probed)
            require_possible(cases, self._rules.metrics)
            executors = [(now, probed.environment)]
            if version is not None:
                before, probed_before = stack.enter_context(self._executor(progress, version))
                executors.append((before, probed_before.environment))
            compared = stored if baseline is None or version else baseline_records(stored, cases, baseline)
            subjects, forced = self._differences(compared, probed.environment, version, executors, force)
            runs = _CheckRuns(self._plan, self._options, store, executors, cases, version, resume)

            def restart_servers(pending: Sequence[Case]) -> None:
                progress.stage_changed("new processes")
                renew_launchers([executor for executor, _ in executors], preload_of_cases(pending))

            check = RegressionCheck(self._options, self._rules, runs.versions, progress, stored, restart_servers)
            try:
                report = check.run(cases)
                runs.finish()
                progress.rounds_ended()
                if version is not None and diff:
                    launchers = [make_launcher("spawn", (), v.python, v.variables) for v in (Version(), version)]
                    profilers = [(e, launcher) for (e, _), launcher in zip(executors, launchers, strict=True)]
                    add_profiles(report, profilers, progress.stage_changed)
            except KeyboardInterrupt:
                report = Report(a="", b="", created="", cases=[], interrupted=True)
            report.a = _baseline_label(baseline, version)
            report.b = f"run {runs.first_run}"
            report.compared = [str(difference) for difference in subjects]
            report.forced = [str(difference) for difference in forced]
            report.notes += runs.notes
            return report

    @contextlib.contextmanager
    def _executor(self, progress: Progress, version: Version) -> Iterator[tuple[LocalExecutor, Probed]]:
        # This server only answers the probe: every round starts one of its own with what it needs preloaded.
        with open_executor(
            self._options.isolation, progress.stage_changed, (), version.python, version.variables
        ) as executor:
            yield executor, _probe(executor, version)

    def _cases(self, probed: Probed) -> list[Case]:
        expansion = expand_plan(self._plan, LocalCatalogue(probed))
        if expansion.searched:
            raise BadInput("a check needs fixed batch sizes: --batch auto would compare different work")
        if not expansion.cases:
            raise nothing_to_do(expansion.skipped)
        return expansion.cases

    def _differences(
        self,
        stored: list[Record],
        environment: Environment,
        version: Version | None,
        executors: Sequence[tuple[LocalExecutor, Environment]],
        force: bool,
    ) -> tuple[list[Difference], list[Difference]]:
        """The differences that are the subject and those that prevent a comparison; refuses the latter unless
        forced, before anything is measured."""
        if version is None:
            subjects, blocking = baseline_differences(stored, environment)
        else:
            intended = {f"flags.{VARIABLE}{name}" for name in version.variables}
            differences = environment_differences(executors[1][1], environment)
            blocking = [
                d for d in differences if d.group == "machine" or (d.group == "flags" and d.field not in intended)
            ]
            subjects = [d for d in differences if d not in blocking]
            blocking += version_differences(stored, executors[1][1])
        if not force:
            refuse_differences(blocking)
        return subjects, blocking


class _CheckRuns:
    """The runs of a check in the store, one for each stage and version; --resume finds them again."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        store: Store,
        executors: Sequence[tuple[LocalExecutor, Environment]],
        cases: Sequence[Case],
        version: Version | None,
        resume: bool,
    ) -> None:
        self._name, self._options, self._store = f"check {plan.name}", options, store
        self._executors, self._cases, self._resume = executors, list(cases), resume
        # Two versions may have equal environments. And rounds that were interleaved with another version, or with
        # none, were not interleaved with this one.
        self._version = [version.python, sorted(version.variables.items())] if version else []
        self._journals: dict[str, list[StoreJournal]] = {}
        first = self.journals("first")[0]
        self.first_run = first.run
        self.notes: list[str] = []
        if first.complete_since:
            date = first.complete_since[:16].replace("T", " ")
            resumed = f"--resume shows a check that was complete, run {first.run} of {date}"
            self.notes = [f"{resumed}: without it, everything is measured again"]

    def versions(self, stage: CheckStage) -> list[Target[Executor]]:
        return [
            Target(executor, environment, journal)
            for (executor, environment), journal in zip(self._executors, self.journals(stage), strict=True)
        ]

    def journals(self, stage: CheckStage) -> list[StoreJournal]:
        if stage not in self._journals:
            # The fingerprint of a run contains the run before it: a confirmation belongs to one first stage.
            previous = "" if stage == "first" else self.first_run
            opened: list[StoreJournal] = []
            for i, (_, environment) in enumerate(self._executors):
                if opened:
                    previous = opened[0].run
                parts = ["check", stage, i, previous, self._options.identity, environment.id, *self._version]
                opened.append(self._open(fingerprint(self._cases, parts), i > 0, stage == "confirmation"))
            self._journals[stage] = opened
        return self._journals[stage]

    def finish(self) -> None:
        for journals in self._journals.values():
            for journal in journals:
                journal.finish()

    def _open(self, run_fingerprint: str, baseline_side: bool, confirmation: bool) -> StoreJournal:
        resumed = resume_run(self._store, run_fingerprint) if self._resume else None
        return resumed or begin(
            self._store,
            self._name,
            run_fingerprint,
            [],
            baseline_side=baseline_side,
            confirmation=confirmation,
        )


def reproduce(arguments: Sequence[str]) -> str:
    """The command that reproduces a report, without --resume, which would show this machine's rounds, and without
    --output, which would overwrite a file."""
    kept = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("-o", "--output"):
            next(remaining, None)
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


def _baseline_label(baseline: str | None, version: Version | None) -> str:
    if version is None:
        return f"baseline {baseline}, stored"
    settings = [version.python] if version.python != sys.executable else []
    settings += [f"{name}={value}" for name, value in version.variables.items()]
    label = f"baseline {baseline}" if baseline else "baseline"
    return f"{label}, side by side ({' '.join(settings) or 'the same version'})"
