"""Every rule on a trace, or on two: the findings, the costliest first."""

from collections.abc import Iterable

from tare.findings.context import Scene
from tare.findings.finding import LEAST_SHARE, Finding, Hit, most_costly, severity_of
from tare.findings.registry import Rule, all_rules

_ORDER = {"high": 0, "medium": 1, "low": 2}


def find(scene: Scene, before: Scene | None = None, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """What the rules see in a trace, and with `before` also what two traces side by side show."""
    if scene.step_s <= 0:
        # Nothing is a share of nothing.
        return []
    found = []
    for rule in all_rules().values() if rules is None else rules:
        if rule.pair and before is None:
            continue
        hits = rule.look(before, scene) if rule.pair else rule.look(scene)
        found += [finding for hit in hits if (finding := _finding(rule, hit, scene))]
    return sorted(found, key=lambda f: (_ORDER[f.severity], -(f.gain_s or 0.0)))


def _finding(rule: Rule, hit: Hit, scene: Scene) -> Finding | None:
    share = hit.gain_s / scene.step_s if hit.gain_s is not None and scene.step_s > 0 else None
    if hit.severity is None and (share is None or share < LEAST_SHARE):
        return None
    return Finding(
        rule=rule.id,
        severity=severity_of(share, hit.severity),
        summary=hit.summary,
        remedy=hit.remedy or rule.remedy,
        evidence=hit.evidence,
        places=most_costly(hit.places),
        gain_s=share * scene.whole_s if share is not None else None,
        gain_share=share,
        at_most=hit.at_most,
        at_least=hit.at_least,
        spans=hit.spans,
    )
