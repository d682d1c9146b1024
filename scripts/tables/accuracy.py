"""Writes the tables of docs/accuracy.md from the published trainings. A test compares.

python scripts/tables/accuracy.py
"""

from pathlib import Path

from tare.records.training import Training, decode_training
from tare.report.formats.markdown import table
from tare.report.training import HEADS, epoch_rows, rung_verdicts, subtitle, summary, verdict_row
from tare.studies.outcome import describe

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "accuracy.md", ROOT / "results" / "accuracy"
MARK = "<!-- what follows is written by scripts/tables/accuracy.py -->\n"


def trainings() -> dict[str, Training]:
    return {path.name: decode_training(path.read_bytes(), str(path)) for path in sorted(RESULTS.glob("*.json"))}


def page() -> str:
    parts = [section(name, training) for name, training in trainings().items()]
    return PAGE.read_text().partition(MARK)[0] + MARK + "\n" + "\n".join(parts)


def section(name: str, training: Training) -> str:
    case = training.rungs[0].case
    threads = f", {case.threads} thread{'s' * (case.threads != 1)}" if case.threads else ""
    rows = [row for trained in training.rungs for row in epoch_rows(trained, training.settings.epochs)]
    verdicts = rung_verdicts(training)
    heads = ("rung", "epoch", *HEADS.values(), "runs")
    lines = [
        f"## {case.workload} on {training.settings.data}\n",
        f"{subtitle(training)}; batch {case.batch}.",
        f"Machine: {describe(training.environment, case)}{threads}.",
        f"Record: [`accuracy/{name}`](../results/accuracy/{name}).\n",
        table(heads, [tuple(row[head] for head in heads) for row in rows], ("rung",)),
    ]
    if verdicts:
        cells = [verdict_row(each) for each in verdicts]
        lines.append(table(tuple(cells[0]), [tuple(row.values()) for row in cells], ("rung", "verdict")))
        lines.append(f"**{summary(verdicts, training.reference)}.**\n")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
