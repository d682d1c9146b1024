"""Thresholds by metric and case: the defaults, or a TOML file next to the plan.

threshold = 0.07               # for every metric with noise
margin = 0.02                  # default: two sevenths of the threshold, and at most 0.02

[metric.preparation_warm]
threshold = 0.5

[[case]]
match = "resnet50/compile*"    # a key, its beginning, or a pattern
metric.gross.threshold = 0.03
metric.energy.ignore = true

[leak]
host = 1024                    # bytes a step
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tare.cases.case import Case, key_matches
from tare.cases.tables import read_toml
from tare.errors import BadInput, quote, unknown
from tare.guard.metrics import MARGIN, NAMES, THRESHOLD, Metric
from tare.stats.two_stage import RESOLUTION

TABLES = ("threshold", "margin", "metric", "case", "leak")
KEYS = ("threshold", "margin", "ignore")
LEAKS = ("host", "device")
LEAK_BYTES = 1024.0


class MetricLimits(NamedTuple):
    """A change is a regression from `threshold` on; within `margin` it is no change; `ignore` skips the metric."""

    threshold: float
    margin: float
    ignore: bool = False

    @property
    def resolution(self) -> float:
        """The change that a confirmation is sized to detect: at least one as large as the threshold."""
        return min(RESOLUTION, self.threshold)


class _Rule(NamedTuple):
    match: str
    metric: str | None
    values: Mapping[str, Any]


class Thresholds:
    def __init__(self, rules: list[_Rule] | None = None, leak: Mapping[str, float] | None = None) -> None:
        self._rules = rules or []
        self.leak: dict[str, float] = {"host": LEAK_BYTES, "device": LEAK_BYTES, **(leak or {})}

    def of(self, case: Case, metric: Metric) -> MetricLimits:
        """Later rules override earlier ones; rules for cases come after those for all."""
        settings: dict[str, Any] = {}
        for rule in self._rules:
            # A rule for all metrics is about noise: it does not apply to an exact metric.
            applies = rule.metric == metric.name or (rule.metric is None and not metric.exact)
            if applies and _matches(case, rule.match):
                settings |= rule.values
        threshold = settings.get("threshold", metric.threshold)
        # A smaller threshold is about smaller changes: the margin shrinks with it.
        margin = settings.get("margin", min(metric.margin, threshold * MARGIN / THRESHOLD))
        return MetricLimits(threshold, min(margin, threshold), settings.get("ignore", False))

    def unused_patterns(self, cases: Iterable[Case]) -> list[str]:
        """A note for every pattern that matches no case: it may be misspelt."""
        cases = list(cases)
        patterns = dict.fromkeys(rule.match for rule in self._rules if rule.match != "*")
        unused = [pattern for pattern in patterns if not any(_matches(case, pattern) for case in cases)]
        return [f"no case matches '{pattern}' of the thresholds" for pattern in unused]


def _matches(case: Case, pattern: str) -> bool:
    """A pattern written for one version of a user's model also holds for the next."""
    return key_matches(case.family, pattern) or key_matches(case.key, pattern)


def thresholds_path(plan: Path) -> Path:
    """The default path of a plan's thresholds: night.guard.toml beside night.toml."""
    return plan.with_name(plan.name.removesuffix(".toml") + ".guard.toml")


def read_thresholds(path: Path) -> Thresholds:
    return make_thresholds(read_toml(path, "thresholds"), str(path))


def make_thresholds(document: Mapping[str, Any], where: str) -> Thresholds:
    rules = _rules(document, "*", TABLES, where)
    cases = document.get("case", [])
    if not isinstance(cases, list):
        raise BadInput(f"{where}: 'case' is not a [[case]] table")
    for number, entry in enumerate(cases, 1):
        place = f"{where}, case {number}"
        match = entry.get("match") if isinstance(entry, dict) else None
        if not isinstance(match, str) or not match:
            raise BadInput(f"{place}: 'match' is a case's key, its beginning, or a pattern with *")
        rules += _rules(entry, match, ("match", "metric", *KEYS), place)
    leak = _table(document.get("leak", {}), LEAKS, f"{where}, leak")
    for name, value in leak.items():
        if not _is_number(value) or not 0 <= value <= 1e15:
            raise BadInput(f"{where}, leak: '{name}' is a number of bytes a step, not {quote(value)}")
    return Thresholds(rules, {name: float(value) for name, value in leak.items()})


def _rules(table: Mapping[str, Any], match: str, keys: Sequence[str], where: str) -> list[_Rule]:
    settings = {name: value for name, value in _table(table, keys, where).items() if name in KEYS}
    rules = [_Rule(match, None, settings)] if settings else []
    metrics = _table(table.get("metric", {}), NAMES, f"{where}, metric", "metric")
    rules += [_Rule(match, name, _table(metrics[name], KEYS, f"{where}, metric {name}")) for name in metrics]
    for rule in rules:
        place = f"{where}, metric {rule.metric}" if rule.metric else where
        for name, value in rule.values.items():
            if name == "ignore":
                if not isinstance(value, bool):
                    raise BadInput(f"{place}: 'ignore' is true or false, not {quote(value)}")
            # A 7 most likely means 7 %: as 700 % it would silently pass nearly everything.
            elif not _is_number(value) or not 0 <= value <= 1:
                raise BadInput(f"{place}: '{name}' is a share such as 0.07 (at most 1), not {quote(value)}")
    return rules


def _table(value: Any, keys: Sequence[str], where: str, kind: str = "key") -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} is not a table")
    for name in value:
        if name not in keys:
            raise unknown(kind, name, keys, where)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
