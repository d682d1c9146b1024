"""A finding: one named, located, priced inefficiency, with its remedy."""

from typing import Literal

import msgspec

Severity = Literal["high", "medium", "low"]
# The share of the step that fixing gives back, from which on a finding is of that severity.
HIGH, MEDIUM = 0.10, 0.03
# What gives back less than this is not worth a reader's attention: no finding.
LEAST_SHARE = 0.005
# A list of places longer than this is cut, the costliest first.
MOST_PLACES = 8


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where it happens: a source line or module where the profiler knows it, else the operators around it.

    `count` and `seconds` are per step, the latter as the profiled host or device spent them.
    """

    where: str
    count: float
    seconds: float


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`gain_s` is what fixing gives back of one step (replayed, see replay.py), None where nothing in the trace
    says; `at_most` and `at_least` mark a bound: the trace does not say how long the better way takes, or shows
    only a part of what it saves. Gains of two findings do not add up: both may remove the same idle time."""

    rule: str
    severity: Severity
    summary: str
    remedy: str
    evidence: dict[str, float | int | str] = {}
    places: list[Place] = []
    gain_s: float | None = None
    gain_share: float | None = None
    at_most: bool = False
    at_least: bool = False
    # Where to show it on the trace's own clock, in ns.
    spans: list[tuple[int, int]] = []


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule's function yields; the rest of the finding follows from the rule and from the price.

    `gain_s` None means that the trace does not say: such a hit needs a severity of its own. With a price it is
    the least severity: the finding is shown however little of its gain the trace shows. `remedy` takes the place
    of the rule's where this trace asks for more.
    """

    summary: str
    evidence: dict[str, float | int | str] = {}
    places: list[Place] = []
    gain_s: float | None = None
    at_most: bool = False
    at_least: bool = False
    severity: Severity | None = None
    remedy: str | None = None
    spans: list[tuple[int, int]] = []


def bound_of(finding: Finding, most: str, least: str) -> str:
    """The mark before a price that is a bound; nothing before an estimate."""
    if finding.at_most:
        return most
    return least if finding.at_least else ""


def severity_of(share: float | None, least: Severity | None = None) -> Severity:
    """By the share that fixing gives back, and no less than `least`."""
    found: Severity = "low"
    if share is not None and share >= MEDIUM:
        found = "high" if share >= HIGH else "medium"
    return max(found, least or found, key=("low", "medium", "high").index)


def most_costly(places: list[Place]) -> list[Place]:
    """Places of the same name joined, the costliest first, the tail cut."""
    joined: dict[str, Place] = {}
    for place in places:
        old = joined.get(place.where)
        if old:
            place = Place(where=old.where, count=old.count + place.count, seconds=old.seconds + place.seconds)
        joined[place.where] = place
    return sorted(joined.values(), key=lambda place: -place.seconds)[:MOST_PLACES]
