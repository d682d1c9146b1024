"""Writes docs/claims.md: every claim of the papers with its verdict from the published records. A test compares.

python scripts/tables/claims.py
"""

from pathlib import Path

from tare.report.formats.markdown import table
from tare.report.study import claim_counts, claim_figures, counts_line
from tare.studies.evidence import read_evidence
from tare.studies.registry import all_studies
from tare.studies.verdict import ClaimVerdict, StudyVerdict, judge_study

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "claims.md", ROOT / "results"
MARK = "<!-- what follows is written by scripts/tables/claims.py -->\n"
# The published records of each study. Where there are several of the same cases, those with the most rounds.
RECORDS = {
    "abstraction": (
        "resnet50-h200/native-infer.json.gz", "resnet50-h200/native-train.json.gz", "resnet50-h200/infer.json.gz",
        "resnet50-h200/train.json.gz", "frames/h200.json.gz",
    ),
    "lstm": ("lstm-h200/deepbench.json.gz",),
    "breakdown": ("zoo/h200-explained-train.json.gz", "zoo/h200-explained-infer.json.gz"),
    "compilers": ("zoo/h200-compile-three-rounds.json.gz", "zoo/h200-compile-train.json.gz"),
    "coverage": ("zoo/coverage.json",),
}  # fmt: skip
HEADS = ("claim", "says", "paper", "here", "points", "rounds", "parity", "verdict")
WORDS = ("claim", "says", "paper", "here", "parity", "verdict")


def verdicts() -> list[StudyVerdict]:
    return [
        judge_study(study, read_evidence([RESULTS / name for name in RECORDS.get(study.name, ())]))
        for study in all_studies()
    ]


def page() -> str:
    studies = verdicts()
    parts = [f"{counts_line(studies)}.\n", *map(section, studies)]
    return PAGE.read_text().partition(MARK)[0] + MARK + "\n" + "\n".join(parts)


def section(study: StudyVerdict) -> str:
    names = [f"[`{name}`](../results/{name})" for name in RECORDS.get(study.study, ())]
    machines = dict.fromkeys(figure.machine for claim in study.claims for _, figure in claim.figures)
    lines = [
        f"## {study.title}\n",
        f"Study `{study.study}`: [{study.paper}](sources.md#{study.paper.lower().replace(' ', '-')}).",
    ]
    lines += [f"Records: {', '.join(names)}."] if names else ["No records are published yet."]
    lines += [f"Machine: {'; '.join(filter(None, machines))}."] if any(machines) else []
    return "\n".join([*lines, "", table(HEADS, map(row, study.claims), WORDS)])


def row(claim: ClaimVerdict) -> tuple[str, ...]:
    verdict = f"{claim.verdict}: {claim.reason}" if claim.reason else claim.verdict
    says = f"{claim.says} ({claim.note})" if claim.note else claim.says
    return claim.id, says, claim.paper or "-", claim_figures(claim), *claim_counts(claim), verdict


if __name__ == "__main__":
    PAGE.write_text(page())
