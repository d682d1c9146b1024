"""Markdown: ladders and tables of records for a document, comparisons for an issue or a pull request."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from tare.guard.changes import CallChange, CaseChange, MetricChange, Report
from tare.records.record import Record
from tare.report.changes import (
    change_cells,
    is_change,
    only_in,
    source_line,
    state_of,
    summary_line,
    unfinished_lines,
)
from tare.report.formats import comparison_format, record_format
from tare.report.numbers import seconds, several
from tare.report.overview import overview
from tare.report.suite import make_suites, suite_view
from tare.report.view import Drawing, FittingTable, Line, View
from tare.system.text import one_line

CHANGE_HEADS = ("case", "metric", "before", "now", "change", "verdict", "")
CHANGE_WORDS = ("case", "metric", "verdict", "")
DIFFERENCE_HEADS = ("", "kind", "name", "calls", "before", "now")
DIFFERENCE_WORDS = ("", "kind", "name")
MOST_DIFFERENCES, MOST_DIFFERENT_CASES = 15, 10
# In characters. GitHub refuses a comment of more than 65536: then the regression would go unreported.
ROOM, ROOM_FOR_CHANGES = 60_000, 30_000
MOST_LINES = 40
# What Markdown takes for emphasis, a link or an escape. It leaves an underscore within a word alone.
MARKS = re.compile(r"[\\*\[\]~|]|(?<![^\W_])_|_(?![^\W_])")
# What GitHub takes for a user, who is then notified, or for an issue: @property, core #0.
MENTIONS = re.compile(r"@(?=\w)|#(?=\d)")


@record_format("markdown", "ladders as Markdown tables")
def records_markdown(records: Sequence[Record]) -> str:
    return markdown(overview(records, table=False, columns=None))


@record_format("table", "one Markdown table with a line per record, and the suites")
def records_table(records: Sequence[Record]) -> str:
    return markdown(overview(records, table=True, columns=None))


def suites_markdown(records: Sequence[Record]) -> str:
    """Each rung against eager over the workloads, with means of n of m and the workloads that were skipped."""
    return markdown(View().show(*map(suite_view, make_suites(records))))


def markdown(view: View) -> str:
    """The view with its title as a heading and its notes as a list. Drawings are left out."""
    text, was_item = "", False
    for part in view.parts:
        is_item = isinstance(part, Line) and part.role not in ("title", "faint")
        if shown := _part(part):
            text += ("\n" if text and not (is_item and was_item) else "") + shown
            was_item = is_item
    return text


def _part(part: Line | FittingTable | Drawing) -> str:
    if isinstance(part, FittingTable) and part.rows:
        drawn = {name for row in part.rows for name, cell in row.items() if isinstance(cell, Drawing)}
        heads = [head for name, head in part.heads.items() if name not in drawn]
        rows = [[str(cell) for name, cell in row.items() if name not in drawn] for row in part.rows]
        return table(heads, rows, part.words)
    if isinstance(part, Line) and part.text:
        return {"title": "### ", "faint": ""}.get(part.role, "- ") + escape(part.text) + "\n"
    return ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str]) -> str:
    """A Markdown table; the columns in `words` are left-aligned."""
    return "\n".join((*_table_head(heads, words), *(_table_row(map(escape, row)) for row in rows))) + "\n"


def _table_head(heads: Sequence[str], words: Collection[str]) -> list[str]:
    return [_table_row(map(escape, heads)), _table_row("---" if head in words else "---:" for head in heads)]


def _table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """One line that Markdown shows as it is, also in a table, and that mentions nobody."""
    shown = MARKS.sub(r"\\\g<0>", _plain_line(text)).replace("&", "&amp;").replace("<", "&lt;")
    return MENTIONS.sub(r"\g<0><!-- -->", shown)


def code(text: str, cell: bool = False) -> str:
    """One line as code. Markdown knows no entities or escapes there, except for the pipe in a table's cell."""
    line = _plain_line(text)
    return "`" + (line.replace("|", "\\|") if cell else line) + "`"


def _plain_line(text: str) -> str:
    return one_line(text).replace("`", "'")


@comparison_format("markdown", "a comment on an issue or a pull request")
def comparison_markdown(report: Report) -> str:
    mark = "❌" if report.bad else "⚠️" if report.unfinished else "✅"
    lines = [f"## {mark} {escape(summary_line(report))}", ""]
    lines += [f"{escape(report.b)} against {escape(report.a)}", ""]
    lines += [f"- **not comparable, and forced**: {escape(line)}" for line in report.forced]
    lines += [f"- compared: {escape(line)}" for line in report.compared]
    if report.forced or report.compared:
        lines.append("")
    for side, keys in only_in(report).items():
        lines += _first([f"- not compared, only in {escape(side)}: {code(key)}" for key in keys])
    lines += _first([f"- {escape(line)}" for line in unfinished_lines(report)])
    lines += _first(
        [f"- {code(case.case)} {escape(line)}" for case in report.cases if (line := source_line(case))]
    )
    lines += _broken_cases(report)
    pairs = [(case, change) for case in report.cases for change in case.changes]
    if changed := [pair for pair in pairs if is_change(pair[1])]:
        changed.sort(key=lambda pair: not pair[1].regression)
        lines += [*_change_table(changed, ROOM_FOR_CHANGES), ""]
    lines += _differences(report)
    end = [f"- {escape(note)}" for note in report.notes]
    end += ["", _confidence(report), ""]
    if report.environment:
        facts = ", ".join(f"{name} {escape(fact)}" for name, fact in report.environment.items())
        end.append(f"Environment: {facts}")
    if report.command:
        end += ["", "To reproduce:", "", "```", " ".join(report.command.replace("`", "'").split()), "```"]
    if unchanged := [pair for pair in pairs if not is_change(pair[1])]:
        summary = f"{several(len(unchanged), 'figure')} without a change, or undecided"
        room = ROOM - sum(len(line) + 1 for line in (*lines, *end))
        lines += [
            f"<details><summary>{summary}</summary>",
            "",
            *_change_table(unchanged, room),
            "",
            "</details>",
            "",
        ]
    return "\n".join([*lines, *end]) + "\n"


def _first(lines: list[str]) -> list[str]:
    hidden = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"- and {hidden} more"] if hidden > 0 else []), ""] if lines else []


def _broken_cases(report: Report) -> list[str]:
    """New failures first: cases that failed before as well must not push them off the page."""
    lines = []
    for case in sorted(report.cases, key=lambda case: not case.bad):
        if state := state_of(case):
            lines.append(f"- {code(case.case)} {escape(state)}")
        lines += [f"- {code(case.case)} leaks: {escape(leak)}" for leak in case.leaks]
    return _first(lines)


def _change_row(case: CaseChange, change: MetricChange) -> str:
    cells = change_cells(change)
    verdict = f"**{change.verdict}**" if change.regression else change.verdict
    figures = (cells["before"], cells["now"], cells["change"])
    return _table_row((code(case.case, cell=True), change.metric, *figures, verdict, escape(cells["remark"])))


def _change_table(changes: list[tuple[CaseChange, MetricChange]], room: int) -> list[str]:
    """As many rows as fit into `room` characters, and how many did not fit."""
    rows = [_change_row(case, change) for case, change in changes]
    fitting = sum(end <= room for end in accumulate(len(row) + 1 for row in rows))
    return [*_table_head(CHANGE_HEADS, CHANGE_WORDS), *rows[:fitting], *_hidden(len(rows) - fitting)]


def _differences(report: Report) -> list[str]:
    """The operators and kernels in which the steps that got worse differ: appeared, vanished, slowed."""
    lines = []
    cases = [case for case in report.bad if case.call_changes]
    for case in cases[:MOST_DIFFERENT_CASES]:
        source = "profiled side by side" if case.call_changes_by == "profile" else "counted in the records"
        lines += [f"### What {code(case.case)} differs in", "", f"Per step, {source}:", ""]
        lines += _table_head(DIFFERENCE_HEADS, DIFFERENCE_WORDS)
        lines += [_difference_row(difference) for difference in case.call_changes[:MOST_DIFFERENCES]]
        lines += [*_hidden(len(case.call_changes) - MOST_DIFFERENCES), ""]
    return [*lines, *_hidden(len(cases) - MOST_DIFFERENT_CASES, " cases"), ""] if lines else []


def _hidden(count: int, what: str = "") -> list[str]:
    return ["", f"and {count} more{what} (`--format json` has all)"] if count > 0 else []


def _difference_row(difference: CallChange) -> str:
    before, after = f"{difference.before_calls:g}", f"{difference.after_calls:g}"
    calls = before if before == after else f"{before} → {after}"
    times = [seconds(value) if value else "" for value in (difference.before_s, difference.after_s)]
    return _table_row((difference.status, difference.kind, code(difference.name, cell=True), calls, *times))


def _confidence(report: Report) -> str:
    """What the verdicts guarantee. A stored baseline was measured on the machine as it was on another day."""
    changes = [change for case in report.cases for change in case.changes]
    confirmed = [change for change in changes if change.stage != "first"]
    if confirmed:
        text = "Each suspected regression was measured again in fresh processes, and its figures are those. "
        chance = f"the chance of any false alarm is at most {report.level:.1%}"
        if all(change.paired for change in confirmed):
            return f"{text}Where nothing has changed, {chance}: both versions were measured side by side."
        return (
            f"{text}The baseline was stored, not measured again: on a machine that is just as it was, {chance}. "
            "No rule can tell a change of the machine since then from a change of the code."
        )
    text = (
        "Intervals are 95 %, from the medians of fresh processes; false discoveries are held to "
        f"{report.level:.1%} over all figures together"
    )
    if all(change.paired or change.exact for change in changes):
        return f"{text}."
    return f"{text}, if the machine was the same for both sides: they were not measured side by side."
