"""Checks on executors that measure nothing."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from builders import ENVIRONMENT, make_case, make_failure, make_round
from mock_runs import SilentListener

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Listener, Target
from tare.guard.changes import Report
from tare.guard.check import RegressionCheck
from tare.guard.compare import Rules
from tare.guard.metrics import METRICS, get_metric
from tare.guard.thresholds import Thresholds, make_thresholds
from tare.records.record import HostMemory, Record, Round
from tare.store.database import Store
from tare.store.journal import begin

CASES = [make_case(batch=n) for n in range(1, 7)]
ROUNDS = 6
StepS = Callable[[Case, int], float]


class Simulated:
    """An executor whose rounds take what `step_s` says of their case and of how many came before."""

    def __init__(self, step_s: StepS, order: list[str], name: str, seed: int) -> None:
        self._step_s, self._order, self._name = step_s, order, name
        self._drawn = random.Random(seed)
        self._taken = 0

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:  # noqa: ARG002
        self._order.append(self._name)
        seconds = self._step_s(case, self._taken)
        self._taken += 1
        if seconds <= 0:
            return make_round(index, failure=make_failure())
        memory = HostMemory(peak=10**9, prepare_peak=10**9, start=10**8, method="test")
        return make_round(index, seconds * self._drawn.lognormvariate(0, 0.01), host_memory=memory)


class Setting:
    """A check of CASES with two simulated versions, or with one and a stored baseline."""

    def __init__(self, tmp_path: Path, now: StepS, before: StepS | None, **rules: Any) -> None:
        self.order: list[str] = []
        self.stages: list[str] = []
        self.listener: Listener = SilentListener()
        self.store = Store(str(tmp_path / "check.db"))
        self._versions = {"now": now} | ({"before": before} if before else {})
        self.use(Simulated)
        self._rules = Rules(Thresholds(), METRICS, **rules)
        self._journals: dict[str, Any] = {}

    def use(self, kind: type[Simulated]) -> None:
        """Executors of this kind measure, one for each version."""
        found = enumerate(self._versions.items(), 1)
        self._executors = [kind(step_s, self.order, name, seed) for seed, (name, step_s) in found]

    def only(self, *metrics: str) -> None:
        self._rules = self._rules._replace(metrics=[get_metric(name) for name in metrics])

    def limit(self, document: dict[str, Any]) -> None:
        self._rules = self._rules._replace(thresholds=make_thresholds(document, "test"))

    def sides(self, stage: str) -> list[Target[Executor]]:
        self.stages.append(stage)
        if stage not in self._journals:
            self._journals[stage] = [begin(self.store, stage, stage, []) for _ in self._executors]
        return [Target(e, ENVIRONMENT, j) for e, j in zip(self._executors, self._journals[stage], strict=True)]

    def run(
        self, stored: list[Record] | None = None, rounds: int = ROUNDS, cases: Sequence[Case] = CASES
    ) -> Report:
        options = Options(rounds=rounds)
        check = RegressionCheck(options, self._rules, self.sides, self.listener, stored or [], lambda _: None)
        return check.run(cases)


def flat(_: Case, __: int) -> float:
    return 1e-3


def slow_first(case: Case, _: int) -> float:
    return 1.1e-3 if case.batch == 1 else 1e-3


def of(report: Report, case: Case, metric: str) -> Any:
    changes = next(entry.changes for entry in report.cases if entry.case == case.key)
    return next(change for change in changes if change.metric == metric)


def gross(report: Report, case: Case) -> Any:
    return of(report, case, "gross")
