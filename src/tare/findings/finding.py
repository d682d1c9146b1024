"""Rules, what they report, and checking a trace against all of them.

A rule is a decorated function in a file under rules/, or in a plug-in. It returns a Match where it sees its
inefficiency; `find` turns matches into findings, the largest saving first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from pkgutil import iter_modules
from typing import Any, Literal

import msgspec
import numpy.typing as npt

from tare.errors import unknown
from tare.findings.context import Context, Location
from tare.findings.replay import as_intervals
from tare.system.plugins import load_plugins, refuse_a_second
from tare.trace.intervals import normal

Severity = Literal["low", "medium", "high"]
Bound = Literal["", "at most", "at least"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high")
# The share of the step that the fix saves, from which on a finding has that severity.
HIGH, MEDIUM = 0.10, 0.03
# A smaller saving is not reported.
LEAST_SHARE = 0.005
# Longer lists are cut, the largest times first.
MOST_LOCATIONS, MOST_SPANS = 8, 200


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule returns.

    Without `saving_s` a match needs a `severity`. With a saving, `severity` is the least that the finding gets,
    and the finding is reported however small the saving is. `remedy` replaces that of the rule. Evidence of None
    is not shown.
    """

    summary: str
    evidence: Mapping[str, float | str | None] = {}
    locations: list[Location] = []
    # What the remedy saves of one step according to the replay (replay.py); None where the trace does not tell.
    saving_s: float | None = None
    # Marks a saving that is only a bound: the trace does not show how long the better way takes, or shows only a
    # part of what it saves.
    bound: Bound = ""
    severity: Severity | None = None
    remedy: str | None = None
    # Where a trace viewer should show it: pairs of start and end in nanoseconds on the trace's own clock.
    spans: npt.ArrayLike = ()


class Finding(Match, frozen=True, kw_only=True):
    """One named, located inefficiency with its remedy. The savings of two findings do not add up: both may remove
    the same idle time."""

    rule: str
    severity: Severity
    remedy: str
    evidence: dict[str, float | str] = {}
    saving_share: float | None = None
    spans: list[tuple[int, int]] = []


Look = Callable[..., Match | None]


@dataclass(frozen=True)
class Rule:
    """`look(context)` checks one trace; `look(before, after)` compares two (`pair`). None: no finding."""

    id: str
    sees: str
    remedy: str
    look: Look
    pair: bool = False


_rules: dict[str, Rule] = {}


def rule(remedy: str) -> Callable[[Any], Any]:
    """Registers the decorated function as a rule. Its name is the id, and its docstring says what it sees."""

    def register(look: Look) -> Look:
        id = look.__name__.replace("_", "-")
        refuse_a_second("rule", id, look, _rules[id].look if id in _rules else None)
        sees = " ".join((look.__doc__ or "").split())
        _rules[id] = Rule(id, sees, remedy, look, pair=len(signature(look).parameters) == 2)
        return look

    return register


def all_rules() -> dict[str, Rule]:
    """By id: the files in rules/, installed plug-ins, and the modules named in TARE_PLUGINS."""
    from tare.findings import rules

    own = tuple(f"{rules.__name__}.{module.name}" for module in iter_modules(rules.__path__))
    load_plugins("tare.findings", own)
    return dict(sorted(_rules.items()))


def get_rule(id: str) -> Rule:
    known = all_rules()
    if id not in known:
        raise unknown("finding", id, known)
    return known[id]


def find(context: Context, before: Context | None = None, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """What the rules see in a trace; rules that compare two traces run where `before` is given."""
    if context.step_s <= 0:
        return []
    findings = []
    for rule in all_rules().values() if rules is None else rules:
        if rule.pair and before is None:
            continue
        match = rule.look(before, context) if rule.pair else rule.look(context)
        if match and (finding := _finding(rule, match, context)):
            findings.append(finding)
    return sorted(findings, key=lambda f: (-SEVERITIES.index(f.severity), -(f.saving_s or 0.0)))


def _finding(rule: Rule, match: Match, context: Context) -> Finding | None:
    share = match.saving_s / context.step_s if match.saving_s is not None else None
    if match.severity is None and (share is None or share < LEAST_SHARE):
        return None
    return Finding(
        rule=rule.id,
        severity=severity_of(share, match.severity),
        summary=match.summary,
        remedy=match.remedy or rule.remedy,
        evidence={name: value for name, value in match.evidence.items() if value is not None},
        locations=joined(match.locations),
        saving_s=share * context.reported_step_s if share is not None else None,
        saving_share=share,
        bound=match.bound,
        spans=[(start, end) for start, end in normal(as_intervals(match.spans))[:MOST_SPANS].tolist()],
    )


def severity_of(share: float | None, least: Severity | None = None) -> Severity:
    by_share: Severity = "low" if share is None or share < MEDIUM else "medium" if share < HIGH else "high"
    return max(by_share, least or "low", key=SEVERITIES.index)


def joined(locations: Iterable[Location]) -> list[Location]:
    """Locations of the same name added up, the longest first, cut to MOST_LOCATIONS."""
    by_name: dict[str, Location] = {}
    for location in locations:
        if known := by_name.get(location.where):
            sums = {"count": known.count + location.count, "seconds": known.seconds + location.seconds}
            location = Location(where=known.where, **sums)
        by_name[location.where] = location
    return sorted(by_name.values(), key=lambda location: -location.seconds)[:MOST_LOCATIONS]
