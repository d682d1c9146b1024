"""Ladders as Markdown tables, for an issue, a pull request or a README."""

from collections.abc import Iterable

from tare.records.record import Record
from tare.report.ladder import Ladder, make_ladders
from tare.report.terminal import row_texts, title, where


def export(records: Iterable[Record]) -> str:
    return "\n".join(_ladder(ladder) for ladder in make_ladders(records))


def _ladder(ladder: Ladder) -> str:
    heads, lines = row_texts(ladder)
    out = [f"### {title(ladder.case)}", "", _escape(where(ladder)), ""]
    if lines:
        out.append("| " + " | ".join(heads) + " |")
        out.append("| " + " | ".join("---" if h in ("rung", "parity") else "---:" for h in heads) + " |")
        out += ["| " + " | ".join(line) + " |" for line in lines]
        out.append("")
    out += [f"- {row.rung} failed: {_escape(row.failure)}" for row in ladder.rows if row.failure]
    out += [f"- {_escape(note)}" for note in ladder.notes]
    return "\n".join(out) + "\n"


def _escape(text: str) -> str:
    """One line that Markdown shows as it is: a newline would end the list, a pipe or a tag would be taken."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
