"""Rules, what they report, and checking a trace against all of them.

A rule is a decorated function in a file of its own under rules/, or in a plug-in. It returns a Match where it sees
its inefficiency; `find` turns matches into findings, the largest saving first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pkgutil import iter_modules
from typing import Any, Literal

import msgspec

from tare.errors import unknown
from tare.findings.context import Context, Location, merged
from tare.findings.replay import Span
from tare.system.plugins import load_plugins, refuse_a_second

Severity = Literal["high", "medium", "low"]
Bound = Literal["", "at most", "at least"]
Evidence = dict[str, float | int | str]
# The share of the step that the fix saves, from which on a finding has that severity.
HIGH, MEDIUM = 0.10, 0.03
# A smaller saving is not reported.
LEAST_SHARE = 0.005
# Longer lists are cut, the largest times first.
MOST_LOCATIONS, MOST_SPANS = 8, 200


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One named, located inefficiency with its remedy.

    `saving_s` is what the remedy saves of one step according to the replay (replay.py); None where the trace does
    not tell. `bound` marks a saving that is only a bound: the trace does not show how long the better way takes,
    or shows only a part of what it saves. The savings of two findings do not add up: both may remove the same idle
    time.
    """

    rule: str
    severity: Severity
    summary: str
    remedy: str
    evidence: Evidence = {}
    locations: list[Location] = []
    saving_s: float | None = None
    saving_share: float | None = None
    bound: Bound = ""
    # Where a trace viewer should show it: nanoseconds on the trace's own clock.
    spans: list[Span] = []


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule returns.

    Without `saving_s` a match needs a `severity`. With a saving, `severity` is the least that the finding gets,
    and the finding is reported however small the saving is. `remedy` replaces that of the rule.
    """

    summary: str
    evidence: Evidence = {}
    locations: list[Location] = []
    saving_s: float | None = None
    bound: Bound = ""
    severity: Severity | None = None
    remedy: str | None = None
    spans: list[Span] = []


Look = Callable[..., Match | None]


@dataclass(frozen=True)
class Rule:
    """`look(context)` checks one trace; with `pair`, `look(before, after)` compares two. None: no finding."""

    id: str
    sees: str
    remedy: str
    look: Look
    pair: bool = False


_rules: dict[str, Rule] = {}


def rule(id: str, *, sees: str, remedy: str, pair: bool = False) -> Callable[[Any], Any]:
    """Registers the decorated function as a rule; `sees` and `remedy` are a sentence each."""

    def register(look: Look) -> Look:
        refuse_a_second("rule", id, look, _rules[id].look if id in _rules else None)
        _rules[id] = Rule(id, sees, remedy, look, pair)
        return look

    return register


def all_rules() -> dict[str, Rule]:
    """By id: the files in rules/, installed plug-ins, and the modules named in TARE_PLUGINS."""
    from tare.findings import rules

    own = tuple(f"{rules.__name__}.{module.name}" for module in iter_modules(rules.__path__))
    load_plugins("tare.findings", own)
    return dict(_rules)


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
    order = ("high", "medium", "low")
    return sorted(findings, key=lambda f: (order.index(f.severity), -(f.saving_s or 0.0)))


def _finding(rule: Rule, match: Match, context: Context) -> Finding | None:
    share = match.saving_s / context.step_s if match.saving_s is not None else None
    if match.severity is None and (share is None or share < LEAST_SHARE):
        return None
    return Finding(
        rule=rule.id,
        severity=severity_of(share, match.severity),
        summary=match.summary,
        remedy=match.remedy or rule.remedy,
        evidence=match.evidence,
        locations=joined(match.locations),
        saving_s=share * context.reported_step_s if share is not None else None,
        saving_share=share,
        bound=match.bound,
        spans=merged(match.spans)[:MOST_SPANS],
    )


def severity_of(share: float | None, least: Severity | None = None) -> Severity:
    by_share: Severity = "low"
    if share is not None and share >= MEDIUM:
        by_share = "high" if share >= HIGH else "medium"
    return max(by_share, least or by_share, key=("low", "medium", "high").index)


def joined(locations: Iterable[Location]) -> list[Location]:
    """Locations of the same name added up, the longest first, cut to MOST_LOCATIONS."""
    by_name: dict[str, Location] = {}
    for location in locations:
        known = by_name.get(location.where)
        if known:
            location = Location(
                where=known.where, count=known.count + location.count, seconds=known.seconds + location.seconds
            )
        by_name[location.where] = location
    return sorted(by_name.values(), key=lambda location: -location.seconds)[:MOST_LOCATIONS]
