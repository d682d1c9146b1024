"""A study: its claims with what the paper said, what this machine says, and the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tare.report.numbers import percent, several, value
from tare.report.view import FittingTable, View
from tare.studies.outcome import OurFigure, PartVerdict
from tare.studies.verdict import ClaimVerdict, StudyVerdict

WORDS = ("claim", "paper", "here", "parity", "verdict")
FOLDED = {"claim": 14, "paper": 16, "here": 18, "verdict": 12}

# What was not decided is shown faintly.
OPEN = ("not yet measured", "not testable here")


def figure_text(number: float, unit: str) -> str:
    """A figure in its unit: '1.46x', '56.8 %', '47 frames'."""
    if unit == "x":
        return f"{number:.3g}x"
    if unit == "share":
        return percent(number)
    return value(number, unit) if unit else f"{number:.3g}"


def our_text(figure: OurFigure) -> str:
    """Our figure with its interval where it has one: '1.6x (1.45x to 1.77x)'."""
    if figure.unit == "failed":
        return f"{figure.value:g} of {figure.most:g} cases failed"
    middle = figure_text(figure.value, figure.unit)
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return middle
    low, high = (figure_text(bound, figure.unit) for bound in (figure.low, figure.high))
    return f"{middle} ({low} to {high})"


def claim_figures(claim: ClaimVerdict) -> str:
    """Our figures of all parts, each with its label."""
    return "; ".join(f"{label} {our_text(figure)}".strip() for label, figure in claim.figures) or "-"


def claim_counts(claim: ClaimVerdict) -> tuple[str, str, str]:
    """Over how many points of how many, the fewest rounds, and the parity."""
    figures = [figure for _, figure in claim.figures]
    if not figures:
        return "-", "-", "-"
    fewest = min(figures, key=lambda figure: figure.points)
    parity = "unchecked" if any(figure.parity != "same" for figure in figures) else "same"
    return f"{fewest.points} of {fewest.planned}", str(min(figure.rounds for figure in figures)), parity


def studies_view(entries: Sequence[Mapping[str, Any]]) -> View:
    """The studies, one a line, and what no plan measures."""
    rows = [
        {
            "study": entry["study"],
            "claims": str(entry["claims"]),
            "measured on": ", ".join(entry["devices"]) or "-",
            "of": entry["title"],
        }
        for entry in entries
    ]
    return View().put(FittingTable(rows, words=("study", "measured on"), folds={"of": 20}))


def study_view(study: StudyVerdict, points: bool = False) -> View:
    """With `points`, every point behind a figure, and why others have none."""
    view = View(f"{study.study} · {study.title}", f"{study.paper}; from {study.evidence}")
    view.put(FittingTable([_row(claim) for claim in study.claims], words=WORDS, folds=FOLDED))
    for claim in study.claims:
        view.add("aside" if claim.verdict in OPEN else "item", " ".join(filter(None, _sentences(claim))))
    if points:
        view.show(*(points_view(claim.id, part) for claim in study.claims for part in claim.parts if part.figure))
        view.gap()
    machines = dict.fromkeys(figure.machine for claim in study.claims for _, figure in claim.figures)
    view.add("faint", *(f"measured on {machine}" for machine in machines if machine))
    is_incomplete = any(claim.parts and not claim.figures for claim in study.claims)
    return view.add("result", counts_line([study]), study.next_step if is_incomplete else "")


def points_view(claim: str, part: PartVerdict) -> View:
    """The points of one figure, the largest value first."""
    view = View(" ".join(filter(None, (claim, part.label, f"({part.rule})"))))
    unit = part.figure.unit if part.figure else ""
    # The figure of an error has no unit, and is made of ratios.
    unit = "x" if part.rule == "mpe" else unit
    ordered = sorted(part.values.items(), key=lambda item: -item[1])
    rows = [{"point": key, "here": figure_text(number, unit)} for key, number in ordered]
    view.put(FittingTable(rows, folds={"point": 40}))
    return view.add("failure", *(f"{key}: {why}" for key, why in part.missed.items()))


def counts_line(studies: Sequence[StudyVerdict]) -> str:
    """How many claims have each verdict."""
    counts = Counter(claim.verdict for study in studies for claim in study.claims)
    total = sum(counts.values())
    return f"{several(total, 'claim')}: " + ", ".join(
        f"{count} {verdict}" for verdict, count in counts.most_common()
    )


def _row(claim: ClaimVerdict) -> dict[str, str]:
    points, rounds, parity = claim_counts(claim)
    return {
        "claim": claim.id,
        "paper": claim.paper or "-",
        "here": claim_figures(claim),
        "points": points,
        "rounds": rounds,
        "parity": parity,
        "verdict": claim.verdict,
    }


def _sentences(claim: ClaimVerdict) -> tuple[str, ...]:
    why = f"{claim.verdict.capitalize()}: {claim.reason}." if claim.reason else ""
    return f"{claim.id}: {claim.says}", why, claim.note
