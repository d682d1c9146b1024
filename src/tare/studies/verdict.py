"""The verdicts of a study: what its rules say together of each claim."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tare.studies.evidence import Evidence
from tare.studies.judge import judge_rule
from tare.studies.outcome import OurFigure, PartVerdict
from tare.studies.study import Claim, Study

StudyOutcome = Literal["confirmed", "refuted", "not reproduced", "not testable here", "not yet measured"]
QUICK = "--quick measures small sizes in one round: a lead, not a result"


class ClaimVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the paper said, what this machine says, and the verdict. `reason` is the cause of "not reproduced", and
    says why a claim was not decided. `parts` are the rules that must all hold, `confounds` the other explanations
    of the paper's figure: one that holds explains a claim that is refuted."""

    id: str
    number: int
    says: str
    paper: str
    verdict: StudyOutcome
    reason: str = ""
    parts: list[PartVerdict] = []
    confounds: list[PartVerdict] = []
    note: str = ""

    @property
    def figures(self) -> list[tuple[str, OurFigure]]:
        """Our figures with the labels of their parts."""
        return [(part.label, part.figure) for part in self.parts if part.figure]


class StudyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    study: str
    title: str
    paper: str
    # The store or the files.
    evidence: str
    quick: bool
    claims: list[ClaimVerdict]
    # How to measure what is missing.
    next_step: str = ""


def judge_study(study: Study, evidence: Evidence) -> StudyVerdict:
    return StudyVerdict(
        study=study.name,
        title=study.title,
        paper=study.paper,
        evidence=evidence.where,
        quick=evidence.quick,
        claims=[judge_claim(claim, evidence) for claim in study.claims],
        next_step=study.next_step,
    )


def judge_claim(claim: Claim, evidence: Evidence) -> ClaimVerdict:
    evidence, lead = _about(claim, evidence)
    parts = [judge_rule(rule, evidence) for rule in claim.parts]
    confounds = [
        msgspec.structs.replace(judge_rule(each.rule, evidence), label=each.cause) for each in claim.confounds
    ]
    verdict, reason = _combine(claim, parts)
    if verdict == "refuted" and (cause := next((c.label for c in confounds if c.outcome == "holds"), "")):
        verdict, reason = "not reproduced", f"because {cause}"
    if lead and parts:
        # Neither does such a run say what cannot be tested.
        reason = reason if verdict in ("not testable here", "not yet measured") else lead
        verdict = "not yet measured"
    return ClaimVerdict(
        id=claim.id,
        number=claim.number,
        says=claim.says,
        paper=claim.paper,
        verdict=verdict,
        reason=reason,
        parts=parts,
        confounds=confounds,
        note=claim.note,
    )


def _about(claim: Claim, evidence: Evidence) -> tuple[Evidence, str]:
    """The evidence of the kind of device that the claim is about, or else of another: then why it is a lead."""
    own = evidence.of_device(claim.device)
    if evidence.quick:
        return own if own.records else evidence, QUICK
    if own.device_kinds or not evidence.device_kinds:
        return own, ""
    kind = min(evidence.device_kinds)
    return evidence.of_device(kind), f"measured on {kind} only, and the claim is about {claim.device}"


def _combine(claim: Claim, parts: Sequence[PartVerdict]) -> tuple[StudyOutcome, str]:
    if claim.untestable:
        return "not testable here", claim.untestable
    if claim.waits_for:
        return "not yet measured", claim.waits_for
    contradicted = [part for part in parts if part.outcome == "contradicted"]
    if contradicted:
        return "refuted", _reason(contradicted[0])
    if all(part.outcome == "holds" for part in parts):
        return "confirmed", _reason(parts[0])
    open_part = next((part for part in parts if part.outcome == "impossible"), None)
    if open_part:
        return "not testable here", _reason(open_part)
    return "not yet measured", next(_reason(part) for part in parts if part.outcome != "holds")


def _reason(part: PartVerdict) -> str:
    return f"{part.label}: {part.reason}" if part.label and part.reason else part.reason
