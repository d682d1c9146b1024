"""`tare check` from request to report."""

import contextlib
import functools
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options, make_options
from tare.cases.plan import Expansion, Plan, expand_plan, fingerprint, nothing_to_do
from tare.cases.source import OwnModel
from tare.commands.check_profiles import Profiler, add_profiles
from tare.commands.fleet import FleetTarget, begin_calibration, open_fleet
from tare.errors import BadInput, TareError
from tare.execute.catalogue import open_plan
from tare.execute.executor import Executor, LocalExecutor, OnStage
from tare.execute.fleet.fleet import Fleet, FleetCatalogue, FleetNode
from tare.execute.fleet.session import NodeExecutor, NodeIsLost, NodeSession
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
from tare.guard.compare import Rules
from tare.guard.interleave import RestartServers
from tare.guard.metrics import require_possible
from tare.guard.regressions import record_report
from tare.records.environment import VARIABLE, Difference, Environment, environment_differences
from tare.records.record import Record
from tare.report.fleet import FleetProgress
from tare.report.progress import Progress
from tare.store.baselines import get_baseline
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.journal import resume as resume_run
from tare.system.processes import interruptible
from tare.system.variables import compared_variables, shown_variables
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


class Sides(NamedTuple):
    """Where a check measures: the cases that can be measured there, and the executor and the environment of each
    version, this one first. `models` are the user's models as the baseline's version has them. Without
    `profilers`, nothing can be profiled. `node` is one of a fleet."""

    cases: list[Case]
    executors: Sequence[Executor]
    environments: Sequence[Environment]
    restart_servers: RestartServers
    models: Sequence[OwnModel] = ()
    profilers: Sequence[Profiler] = ()
    node: str = ""


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
        target: FleetTarget | None = None,
    ) -> Report:
        """Measures the plan and compares it, on this machine or on one node of a fleet. After Ctrl-C, --resume
        continues. `diff` profiles regressed cases if both versions can be run. After `max_minutes` no round and no
        profile is begun."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self._where))
            progress = stack.enter_context(FleetProgress(self._show_progress))
            check = _Check(
                store, progress, self._options, self._rules, self._tags, self._plan.name, baseline=baseline,
                stored=get_baseline(store, baseline) if baseline is not None else [], version=version,
                resume=resume, force=force, diff=diff, max_minutes=max_minutes,
            )  # fmt: skip
            if target is not None:
                return self._run_on(stack.enter_context(open_fleet(target.address, progress)), target, check)
            stack.enter_context(interruptible())
            return check.run(stack.enter_context(self._open_sides(version, progress)))

    @contextlib.contextmanager
    def _open_sides(self, version: Version | None, progress: Progress) -> Iterator[Sides]:
        """Both versions on this machine."""
        # The servers only answer the probe: every round starts one of its own with what it needs preloaded.
        isolation, on_stage = self._options.isolation, progress.stage_changed
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(open_plan_session(self._plan, isolation, on_stage, preload=False))
            self._require_possible(session.expansion)
            executors, environments = [session.executor], [session.probed.environment]
            launchers, models = [make_launcher("spawn")], list[OwnModel]()
            if version is not None:
                models = version.read_models(on_stage, self._options.timeout)
                variables = {**variables_of(models), **version.variables}
                executor = open_executor(isolation, on_stage, (), version.python, variables)
                executors.append(stack.enter_context(executor))
                environments.append(_probe(executors[1], version))
                launchers.append(make_launcher("spawn", (), version.python, variables))

            def restart_servers(pending: Sequence[Case]) -> None:
                progress.stage_changed("new processes")
                renew_launchers(executors, preload_of_cases(pending))

            profilers = list(zip(executors, launchers, strict=True))
            yield Sides(session.expansion.cases, executors, environments, restart_servers, models, profilers)

    def _run_on(self, fleet: Fleet, target: FleetTarget, check: "_Check") -> Report:
        """All sides on one node. If it is lost, what is not complete begins anew on the next one."""
        options, version = self._options, check.version
        fleet.survey(target.wanted, {}, self._plan.models, options.isolation, options.timeout)
        expansion = expand_plan(self._plan, FleetCatalogue(fleet.devices))
        self._require_possible(expansion)
        measurable, skips = fleet.consider(expansion.cases, options.memory)
        if not any(measurable.values()):
            raise nothing_to_do([*expansion.skipped, *skips])
        if target.calibrate:
            fleet.calibrate(functools.partial(begin_calibration, check.store), target.drift)
        running = {node.name for node in fleet.usable}
        possible = {
            node.name: [case for case in expansion.cases if case in measurable[node.name]] for node in fleet.usable
        }
        while True:
            name = min(fleet.usable, key=lambda node: check.preference(node, possible[node.name])).name
            # Others may use the nodes that wait.
            for other in running - {name}:
                fleet.cluster.stop(other)
            session = NodeSession(fleet, name)
            try:
                environments = [session.environment if name in running else session.open()]
                running = {name}
                check.progress.node_chosen(name)
                if version is not None:
                    python = "" if version.python == sys.executable else version.python
                    environments.append(session.open_version(python, version.variables))
                executors = [NodeExecutor(session, i) for i in range(len(environments))]
                return check.run(Sides(possible[name], executors, environments, session.renew_servers, node=name))
            except NodeIsLost as lost:
                if not fleet.usable:
                    raise TareError(f"{lost}; no node is left: with --resume, the check continues") from None

    def _require_possible(self, expansion: Expansion) -> None:
        if expansion.searched:
            raise BadInput("a check needs fixed batch sizes: --batch auto would compare different work")
        require_possible(expansion.cases, self._rules.metrics)


@dataclass
class _Check:
    """One check, from what is asked to its report. `run` may be called again with the sides of another node."""

    store: Store
    progress: FleetProgress
    options: Options
    rules: Rules
    tags: Mapping[str, str]
    name: str
    baseline: str | None
    stored: list[Record]
    version: Version | None
    resume: bool
    force: bool
    diff: bool
    max_minutes: float | None

    def __post_init__(self) -> None:
        self._end = time.monotonic() + 60 * self.max_minutes if self.max_minutes is not None else math.inf
        # By their fingerprints, so that another node of the same kind goes on with what is complete.
        self._journals: dict[str, StoreJournal] = {}

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def preference(self, node: FleetNode, cases: list[Case]) -> tuple[int, bool, bool, str]:
        """The node that can measure most of the cases comes first; of several, the one that can be compared with
        the stored baseline, and the one that has begun."""
        assert node.environment is not None, "a node that can be used has been looked at"
        _, forced = _differences(self._compared(cases), [node.environment], None) if self.stored else ([], [])
        journal = self._find_journal(self._fingerprint(cases, ["first", 0, ""], node.environment, []))
        begun = {round_.node for case in cases for round_ in journal.rounds(case)} if journal else set[str]()
        return -len(cases), bool(forced), node.name not in begun, node.name

    def run(self, sides: Sides) -> Report:
        cases, version = sides.cases, self.version
        compared = self._compared(cases)
        subjects, forced = _differences(compared, sides.environments, version)
        refuse_differences([] if self.force else forced)
        digests = {model.source.name: model.description.digest for model in sides.models}
        journals: list[StoreJournal] = []
        projects = read_projects(cases)
        # Another checkout is another state of the user's project.
        sources = {model.source.name: model.source for model in sides.models}
        of_baseline = read_projects(cases, sources.get) if sides.models else projects

        @functools.cache
        def open_targets(stage: CheckStage) -> list[Target[Executor]]:
            """The versions with the runs of a stage in the store; --resume finds these again."""
            targets: list[Target[Executor]] = []
            for i, (executor, environment) in enumerate(zip(sides.executors, sides.environments, strict=True)):
                # The fingerprint of a run contains the run before it: a confirmation belongs to one first stage,
                # and a baseline's run to one of the version now.
                before = targets or (open_targets("first") if stage == "confirmation" else [])
                previous = before[0].journal.run if before else ""
                run = self._fingerprint(cases, [stage, i, previous], environment, sides.models)
                kind = {"baseline_side": i > 0, "confirmation": stage == "confirmation"}
                journal = self._find_journal(run) or begin(self.store, f"check {self.name}", run, [], **kind)
                self._journals[run] = journal
                journal.on_problem = functools.partial(self.progress.say, always=True)
                journals.append(journal)
                target = Target(executor, environment, journal, projects=projects, tags=self.tags)
                targets.append(target._replace(projects=of_baseline, digests=digests) if i else target)
            if sides.node:
                self._drop_rounds_of_others(cases, journals[-len(targets) :], sides.node)
            return targets

        open_targets("first")
        first, complete_since = journals[0].run, journals[0].complete_since[:16].replace("T", " ")
        check = RegressionCheck(
            self.options, self.rules, open_targets, self.progress, self.stored, sides.restart_servers, self.is_over
        )
        try:
            report = check.run(cases)
            if report.unfinished:
                report.notes.append(
                    f"--max-minutes {self.max_minutes:g} is over: with --resume, the check continues"
                )
            else:
                for journal in journals:
                    journal.finish()
            self.progress.rounds_ended()
            if version is not None and self.diff:
                self._add_profiles(report, sides)
        except KeyboardInterrupt:
            report = Report(a="", b="", created="", cases=[], interrupted=True)
        report.a, report.b = _baseline_label(self.baseline, version), f"run {first}"
        before = journals[1].all_records() if version else compared
        imported = package_differences(before, journals[0].all_records())
        report.compared = [str(difference) for difference in (*subjects, *imported)]
        report.forced = [str(difference) for difference in forced]
        report.nodes = _nodes(journals)
        if report.nodes:
            each = " (all rounds of a case on one of them)" if len(report.nodes) > 1 else ""
            report.notes.append(f"measured on {', '.join(report.nodes)}{each}")
        record_report(self.store, report)
        if complete_since:
            resumed = f"--resume shows a check that was complete, run {first} of {complete_since}"
            report.notes.append(f"{resumed}: without it, everything is measured again")
        return report

    def _compared(self, cases: list[Case]) -> list[Record]:
        if self.baseline is None or self.version:
            return self.stored
        return baseline_records(self.stored, cases, self.baseline)

    def _fingerprint(
        self, cases: list[Case], parts: list[Any], environment: Environment, models: Sequence[OwnModel]
    ) -> str:
        identity: list[Any] = []
        # Two versions may have equal environments. And rounds that were interleaved with another version, or with
        # none, were not interleaved with this one.
        if version := self.version:
            digests = {model.source.name: model.description.digest for model in models}
            compared_values = sorted(compared_variables(version.variables).items())
            identity = [version.python, compared_values, version.folder, digests]
        stage, i, previous = parts
        return fingerprint(cases, ["check", stage, i, previous, self.options.identity, environment.id, *identity])

    def _find_journal(self, run: str) -> StoreJournal | None:
        """The journal of a run that has begun here, or before an interruption."""
        if run not in self._journals and self.resume and (journal := resume_run(self.store, run)):
            self._journals[run] = journal
        return self._journals.get(run)

    def _drop_rounds_of_others(self, cases: list[Case], journals: Sequence[StoreJournal], node: str) -> None:
        """Both sides of a case come from one node: what another has begun, and not finished, begins anew."""
        begun: dict[Case, set[str]] = {}
        for case in cases:
            if not all(journal.record(case) for journal in journals):
                names = {round_.node for journal in journals for round_ in journal.rounds(case)}
                begun |= {case: names - {node}} if names - {node} else {}
        if not begun:
            return
        count = sum(len(journal.rounds(case)) for journal in journals for case in begun)
        others = ", ".join(sorted({name or "this machine" for names in begun.values() for name in names}))
        self.progress.say(f"begins anew on {node}: {count} rounds of {others} are dropped", always=True)
        for journal in journals:
            journal.drop_rounds(begun)

    def _add_profiles(self, report: Report, sides: Sides) -> None:
        if self.is_over():
            report.notes += ["regressed cases were not profiled: out of time"] if report.bad else []
        elif sides.profilers:
            add_profiles(report, sides.profilers, self.progress.stage_changed)
        elif report.bad:
            report.notes.append("regressed cases were not profiled: that is done on the machine that measures")


def _nodes(journals: Sequence[StoreJournal]) -> list[str]:
    rounds = (each for journal in journals for record in journal.all_records() for each in record.rounds)
    return sorted({each.node for each in rounds if each.node})


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
