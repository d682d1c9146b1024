"""A line a record and the suites, as Markdown: the table of a whole group, for a document."""

from collections.abc import Iterable

from tare.records.record import Record
from tare.report.markdown import bullets, escape, table
from tare.report.suite import make_suites
from tare.report.suite_view import missed_lines, suite_cells, suite_lines, suite_title
from tare.report.table import failure_lines, table_cells, table_places, table_title


def export(records: Iterable[Record]) -> str:
    kept = list(records)
    if not kept:
        return ""
    out = [f"### {escape(table_title(kept))}", "", *map(escape, table_places(kept)), "", table(*table_cells(kept))]
    return "\n".join([*out, bullets(failure_lines(kept)), suites(kept)])


def suites(records: list[Record]) -> str:
    """Each rung against eager over the workloads, with means of n of m and what was left out."""
    out = []
    for suite in make_suites(records):
        heads, rows = suite_cells(suite)
        out += [f"### {escape(suite_title(suite))}", "", escape(suite.place), ""]
        out += [table(heads, rows)] if rows else []
        out.append(bullets([*suite_lines(suite), *(f"left out: {line}" for line in missed_lines(suite))]))
    return "\n".join(out)
