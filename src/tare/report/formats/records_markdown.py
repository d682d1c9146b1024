"""Ladders as Markdown tables, for an issue, a pull request or a README."""

from collections.abc import Iterable

from tare.records.record import Record
from tare.report.formats.records_table import suites
from tare.report.ladder import Ladder, make_ladders
from tare.report.markdown import bullets, escape, table
from tare.report.terminal import row_texts, title, where


def export(records: Iterable[Record]) -> str:
    kept = list(records)
    parts = [*(_ladder(ladder) for ladder in make_ladders(kept)), suites(kept)]
    return "\n".join(part for part in parts if part)


def _ladder(ladder: Ladder) -> str:
    heads, lines = row_texts(ladder)
    out = [f"### {title(ladder.case)}", "", escape(where(ladder)), ""]
    if lines:
        out.append(table(heads, lines))
    failed = [row.trouble for row in ladder.rows if row.trouble]
    return "\n".join([*out, bullets([*failed, *ladder.notes])])
