"""`tare check` and `tare compare` from request to report."""

import contextlib
import functools
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from tare.cases.case import Case, key_matches
from tare.cases.options import Options, make_options
from tare.cases.plan import Plan, fingerprint
from tare.cases.source import OwnModel
from tare.commands.check_profiles import add_profiles
from tare.errors import BadInput, TareError, unknown
from tare.execute.catalogue import open_plan
from tare.execute.executor import Executor, LocalExecutor, OnStage
from tare.execute.launch import make_launcher
from tare.execute.own_models import models_in
from tare.execute.preload import preload_of_cases
from tare.execute.projects import read_projects
from tare.execute.runner import Target
from tare.execute.session import open_executor, open_plan_session, renew_launchers
from tare.guard.changes import Report
from tare.guard.check import CheckStage, RegressionCheck
from tare.guard.comparable import (
    baseline_differences,
    baseline_records,
    package_differences,
    refuse_differences,
    version_differences,
)
from tare.guard.compare import Rules, compare_selections
from tare.guard.metrics import require_possible
from tare.guard.regressions import record_report
from tare.records.environment import VARIABLE, Difference, Environment, environment_differences
from tare.records.record import Record
from tare.report.progress import Progress
from tare.store.baselines import get_baseline
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.journal import resume as resume_run
from tare.store.selection import select_records
from tare.system.processes import interruptible
from tare.system.variables import STORE, compared_variables, needed_variables, shown_arguments, shown_variables
from tare.workloads.own.registry import variables_of

# Rounds of the first stage, unless the plan or the command line sets them.
ROUNDS = 6


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """How the baseline's version is run: by another interpreter, with other variables, or with the files of the
    user's models from another folder."""

    python: str = sys.executable
    variables: dict[str, str] = {}
    folder: str = ""

    def read_models(self, on_stage: OnStage, timeout: float) -> list[OwnModel]:
        """The user's models as its folder has them; none if they are those of this version."""
        if not self.folder:
            return []
        launcher = make_launcher("spawn", (), self.python, self.variables)
        return models_in(Path(self.folder), launcher, on_stage, timeout)


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
        return (not rungs or case.rung in rungs) and (pattern is None or key_matches(case.family, pattern))

    chosen = [side._replace(records=[r for r in side.records if is_chosen(r.case)]) for side in sides]
    for before, side in zip(sides, chosen, strict=True):
        if not side.records:
            example = min(r.case.key for r in before.records)
            raise BadInput(f"no record of '{side.label}' matches --rung and --case (one of them is {example})")
    families = [{record.case.family for record in side.records} for side in chosen]
    if not families[0] & families[1]:
        raise BadInput(f"'{a}' and '{b}' have no case in common")
    return compare_selections(chosen[0], chosen[1], rules, force)


class CheckSession:
    def __init__(
        self,
        plan: Plan,
        options: dict[str, Any],
        rules: Rules,
        store: str | None,
        show_progress: bool,
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        base = {"rounds": ROUNDS, **plan.options, **options}
        self._options: Options = make_options(base, f"the options of {plan.where}")
        self._plan, self._rules, self._tags = open_plan(plan, timeout=self._options.timeout), rules, tags
        self._where, self._show_progress = store, show_progress

    def run(
        self,
        baseline: str | None,
        version: Version | None,
        resume: bool,
        force: bool,
        diff: bool = True,
        max_minutes: float | None = None,
    ) -> Report:
        """Measures the plan and compares it. After Ctrl-C, --resume continues. `diff` profiles regressed cases if
        both versions can be run. After `max_minutes` no round and no profile is begun."""
        end = time.monotonic() + 60 * max_minutes if max_minutes is not None else math.inf

        def is_over() -> bool:
            return time.monotonic() >= end

        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self._where))
            stored = get_baseline(store, baseline) if baseline is not None else []
            progress = stack.enter_context(Progress(self._show_progress))
            stack.enter_context(interruptible())
            # The servers only answer the probe: every round starts one of its own with what it needs preloaded.
            isolation, on_stage = self._options.isolation, progress.stage_changed
            session = stack.enter_context(open_plan_session(self._plan, isolation, on_stage, preload=False))
            cases = session.expansion.cases
            if session.expansion.searched:
                raise BadInput("a check needs fixed batch sizes: --batch auto would compare different work")
            require_possible(cases, self._rules.metrics)
            executors, environments = [session.executor], [session.probed.environment]
            models = version.read_models(on_stage, self._options.timeout) if version else []
            variables = {**variables_of(models), **version.variables} if version else {}
            if version is not None:
                executor = open_executor(isolation, on_stage, (), version.python, variables)
                executors.append(stack.enter_context(executor))
                environments.append(_probe(executors[1], version))
            compared = stored if baseline is None or version else baseline_records(stored, cases, baseline)
            subjects, forced = _differences(compared, environments, version)
            refuse_differences([] if force else forced)
            # Two versions may have equal environments. And rounds that were interleaved with another version, or
            # with none, were not interleaved with this one.
            identity: list[Any] = []
            digests = {model.source.name: model.description.digest for model in models}
            if version:
                compared_values = sorted(compared_variables(version.variables).items())
                identity = [version.python, compared_values, version.folder, digests]
            journals: list[StoreJournal] = []
            projects = read_projects(cases)
            # Another checkout is another state of the user's project.
            sources = {model.source.name: model.source for model in models}
            of_baseline = read_projects(cases, sources.get) if models else projects

            @functools.cache
            def open_targets(stage: CheckStage) -> list[Target[Executor]]:
                """The versions with the runs of a stage in the store; --resume finds these again."""
                targets: list[Target[Executor]] = []
                for i, (executor, environment) in enumerate(zip(executors, environments, strict=True)):
                    # The fingerprint of a run contains the run before it: a confirmation belongs to one first
                    # stage, and a baseline's run to one of the version now.
                    before = targets or (open_targets("first") if stage == "confirmation" else [])
                    previous = before[0].journal.run if before else ""
                    parts = ["check", stage, i, previous, self._options.identity, environment.id, *identity]
                    run = fingerprint(cases, parts)
                    kind = {"baseline_side": i > 0, "confirmation": stage == "confirmation"}
                    journal = resume_run(store, run) if resume else None
                    journal = journal or begin(store, f"check {self._plan.name}", run, [], **kind)
                    journal.on_problem = functools.partial(progress.say, always=True)
                    journals.append(journal)
                    target = Target(executor, environment, journal, projects=projects, tags=self._tags)
                    targets.append(target._replace(projects=of_baseline, digests=digests) if i else target)
                return targets

            def restart_servers(pending: Sequence[Case]) -> None:
                progress.stage_changed("new processes")
                renew_launchers(executors, preload_of_cases(pending))

            open_targets("first")
            first, complete_since = journals[0].run, journals[0].complete_since[:16].replace("T", " ")
            check = RegressionCheck(
                self._options, self._rules, open_targets, progress, stored, restart_servers, is_over
            )
            try:
                report = check.run(cases)
                if report.unfinished:
                    report.notes.append(
                        f"--max-minutes {max_minutes:g} is over: with --resume, the check continues"
                    )
                else:
                    for journal in journals:
                        journal.finish()
                progress.rounds_ended()
                if version is not None and diff and is_over():
                    report.notes += ["regressed cases were not profiled: out of time"] if report.bad else []
                elif version is not None and diff:
                    launchers = [make_launcher("spawn"), make_launcher("spawn", (), version.python, variables)]
                    add_profiles(report, list(zip(executors, launchers, strict=True)), progress.stage_changed)
            except KeyboardInterrupt:
                report = Report(a="", b="", created="", cases=[], interrupted=True)
            report.a, report.b = _baseline_label(baseline, version), f"run {first}"
            before = journals[1].all_records() if version else compared
            imported = package_differences(before, journals[0].all_records())
            report.compared = [str(difference) for difference in (*subjects, *imported)]
            report.forced = [str(difference) for difference in forced]
            record_report(store, report)
            if complete_since:
                resumed = f"--resume shows a check that was complete, run {first} of {complete_since}"
                report.notes.append(f"{resumed}: without it, everything is measured again")
            return report


def _differences(
    stored: list[Record], environments: Sequence[Environment], version: Version | None
) -> tuple[list[Difference], list[Difference]]:
    """The differences that are the subject of a check, and those that prevent a comparison."""
    if version is None:
        return baseline_differences(stored, environments[0])
    now, before = environments
    intended = {f"flags.{VARIABLE}{name}" for name in version.variables}
    differences = environment_differences(before, now)
    blocking = [d for d in differences if d.group == "machine" or (d.group == "flags" and d.field not in intended)]
    subjects = [d for d in differences if d not in blocking]
    return subjects, blocking + version_differences(stored, before)


def reproduce(arguments: Sequence[str], variables: Mapping[str, str] = os.environ) -> str:
    """The command that reproduces a report, with the variables that decide what it measures and where it finds its
    records; without --resume, which would show this machine's rounds, and without --output, which would overwrite
    a file. A report may be published, so no secret is repeated."""
    kept = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            # What follows are the arguments of a command.
            kept += [argument, *remaining]
        elif argument in ("-o", "--output"):
            next(remaining, None)
        elif argument == "--format" and "=" in (name := next(remaining, "")):
            continue
        elif argument == "--format":
            kept += [argument, name]
        elif argument != "--resume" and not re.match("--output=|-o|--format=[^=]*=", argument):
            kept.append(argument)
    needed = needed_variables(variables, measures=arguments[:1] != ["compare"])
    if any(argument.partition("=")[0] == "--store" for argument in kept):
        needed.pop(STORE, None)
    settings = [f"{name}={shlex.quote(value)}" for name, value in needed.items()]
    return " ".join([*settings, shlex.join(["tare", *shown_arguments(kept)])])


def _probe(executor: LocalExecutor, version: Version) -> Environment:
    try:
        return executor.probe("the baseline's version").environment
    except (TareError, OSError) as error:
        remedy = f"install tare there, in its checkout: {version.python} -m pip install -c constraints.txt ."
        raise BadInput(f"cannot measure with {version.python}: {error} ({remedy})") from None


def _baseline_label(baseline: str | None, version: Version | None) -> str:
    if version is None:
        return f"baseline {baseline}, stored"
    settings = [version.python] if version.python != sys.executable else []
    settings += [version.folder] if version.folder else []
    settings += [f"{name}={value}" for name, value in shown_variables(version.variables).items()]
    label = f"baseline {baseline}" if baseline else "baseline"
    return f"{label}, side by side ({' '.join(settings) or 'the same version'})"
