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

import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tare.cases.case import Case
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
            if applies and key_matches(case.key, rule.match):
                settings |= rule.values
        threshold = settings.get("threshold", metric.threshold)
        # A smaller threshold is about smaller changes: the margin shrinks with it.
        margin = settings.get("margin", min(metric.margin, threshold * MARGIN / THRESHOLD))
        return MetricLimits(threshold, min(margin, threshold), settings.get("ignore", False))

    def unused_patterns(self, cases: Iterable[Case]) -> list[str]:
        """A note for every pattern that matches no case: it may be misspelt."""
        keys = [case.key for case in cases]
        patterns = dict.fromkeys(rule.match for rule in self._rules if rule.match != "*")
        unused = [pattern for pattern in patterns if not any(key_matches(key, pattern) for key in keys)]
        return [f"no case matches '{pattern}' of the thresholds" for pattern in unused]


def thresholds_path(plan: Path) -> Path:
    """The default path of a plan's thresholds: night.guard.toml beside night.toml."""
    return plan.with_name(plan.name.removesuffix(".toml") + ".guard.toml")


def read_thresholds(path: Path) -> Thresholds:
    return make_thresholds(read_toml(path, "thresholds"), str(path))


def make_thresholds(document: Mapping[str, Any], where: str) -> Thresholds:
    for name in document:
        if name not in TABLES:
            raise unknown("key", name, TABLES, where)
    rules = _rules(document, "*", where)
    cases = document.get("case", [])
    if not isinstance(cases, list) or not all(isinstance(entry, dict) for entry in cases):
        raise BadInput(f"{where}: 'case' is not a [[case]] table")
    for number, entry in enumerate(cases, 1):
        place = f"{where}, case {number}"
        for name in entry:
            if name not in ("match", "metric", *KEYS):
                raise unknown("key", name, ("match", "metric", *KEYS), place)
        match = entry.get("match")
        if not isinstance(match, str) or not match:
            raise BadInput(f"{place}: 'match' is a case's key, its beginning, or a pattern with *")
        rules += _rules({name: value for name, value in entry.items() if name != "match"}, match, place)
    return Thresholds(rules, _leak(document.get("leak", {}), where))


def _rules(table: Mapping[str, Any], match: str, where: str) -> list[_Rule]:
    settings = {name: table[name] for name in KEYS if name in table}
    rules = [_Rule(match, None, _checked(settings, where))] if settings else []
    metrics = table.get("metric", {})
    if not isinstance(metrics, dict):
        raise BadInput(f"{where}: 'metric' is not a table")
    for name, values in metrics.items():
        place = f"{where}, metric {name}"
        if name not in NAMES:
            raise unknown("metric", name, NAMES, where)
        if not isinstance(values, dict):
            raise BadInput(f"{place} is not a table")
        rules.append(_Rule(match, name, _checked(values, place)))
    return rules


def _checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    for name, value in values.items():
        if name not in KEYS:
            raise unknown("key", name, KEYS, where)
        if name == "ignore":
            if not isinstance(value, bool):
                raise BadInput(f"{where}: 'ignore' is true or false, not {quote(value)}")
        # A 7 most likely means 7 %: as 700 % it would silently pass nearly everything.
        elif not _is_number(value) or not 0 <= value <= 1:
            raise BadInput(f"{where}: '{name}' is a share such as 0.07 (at most 1), not {quote(value)}")
    return dict(values)


def _leak(table: Any, where: str) -> dict[str, float]:
    if not isinstance(table, dict):
        raise BadInput(f"{where}: 'leak' is not a table")
    for name, value in table.items():
        if name not in LEAKS:
            raise unknown("key", name, LEAKS, f"{where}, leak")
        if not _is_number(value) or not 0 <= value <= 1e15:
            raise BadInput(f"{where}, leak: '{name}' is a number of bytes a step, not {quote(value)}")
    return {name: float(value) for name, value in table.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def key_matches(key: str, match: str) -> bool:
    """Whether a case's key is the given one, begins with it, or matches it as a pattern."""
    return match == "*" or key == match or key.startswith(match.rstrip("/") + "/") or fnmatch.fnmatch(key, match)
