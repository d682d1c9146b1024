"""The body of an issue or a pull-request comment: what, how much, how sure, where, how to reproduce."""

import re
from itertools import accumulate

from tare.guard.changes import CaseChange, Change, Differing, Report
from tare.report.changes import STATES, change_of, remark, summary_line, uncompared, wrong_with
from tare.report.figures import before_and_now
from tare.report.numbers import seconds, several
from tare.system.printable import one_line

HEAD = "| case | metric | before | now | change | verdict | |"
RULE = "| --- | --- | ---: | ---: | ---: | --- | --- |"
DIFFERING_HEAD = "| | | name | calls | before | now |"
DIFFERING_RULE = "| --- | --- | --- | ---: | ---: | ---: |"
MOST_DIFFERING, MOST_DIFFERING_CASES = 15, 10
# Characters: a comment on GitHub of more than 65536 is refused, and then nobody reads of the regression either.
ROOM, ROOM_FOR_NEWS = 60_000, 30_000
MOST_LINES = 40
# What Markdown takes for emphasis, a link or an escape; an underscore within a word it leaves alone.
MARKS = re.compile(r"[\\*\[\]~|]|(?<![^\W_])_|_(?![^\W_])")
# What GitHub takes for somebody's name, who is then told, or for an issue: @property, core #0.
CALLS = re.compile(r"@(?=\w)|#(?=\d)")


def render(report: Report) -> str:
    lines = [f"## {'❌' if report.bad else '✅'} {escape(summary_line(report))}", ""]
    lines += [f"{escape(report.b)} against {escape(report.a)}", ""]
    lines += [f"- **not comparable, and forced**: {escape(line)}" for line in report.forced]
    lines += [f"- compared: {escape(line)}" for line in report.compared]
    if report.forced or report.compared:
        lines.append("")
    lines += _uncompared(report)
    lines += _broken(report)
    told = [(case, change) for case in report.cases for change in case.changes if _is_news(change)]
    if told:
        told.sort(key=lambda pair: not pair[1].regression)
        lines += [*_table(told, ROOM_FOR_NEWS), ""]
    lines += _differing(report)
    end = [f"- {escape(note)}" for note in report.notes]
    end += ["", *_sureness(report), "", *_where(report)]
    if report.command:
        end += ["", "To reproduce:", "", "```", " ".join(report.command.replace("`", "'").split()), "```"]
    lines += _rest(report, ROOM - sum(len(line) + 1 for line in (*lines, *end)))
    return "\n".join([*lines, *end]) + "\n"


def escape(text: str) -> str:
    """One line that Markdown shows as it is, in a table as well, and that calls nobody."""
    shown = MARKS.sub(r"\\\g<0>", _line(text)).replace("&", "&amp;").replace("<", "&lt;")
    return CALLS.sub(r"\g<0><!-- -->", shown)


def code(text: str, cell: bool = False) -> str:
    """One line as code, where Markdown knows neither entities nor escapes, but for the pipe in a table's cell: the
    names of most kernels are templates, full of angle brackets."""
    line = _line(text)
    return "`" + (line.replace("|", "\\|") if cell else line) + "`"


def _line(text: str) -> str:
    return one_line(text).replace("`", "'")


def _is_news(change: Change) -> bool:
    return change.worse or change.verdict not in ("same", "undecided")


def _uncompared(report: Report) -> list[str]:
    lines = [f"- not compared, only in {escape(label)}: {code(key)}" for key, label in uncompared(report)]
    return _first(lines)


def _first(lines: list[str]) -> list[str]:
    left = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"- and {left} more"] if left > 0 else []), ""] if lines else []


def _broken(report: Report) -> list[str]:
    """What is bad first: what has failed before as well must not push it out."""
    lines = []
    for case in sorted(report.cases, key=lambda case: not case.bad):
        if wrong := wrong_with(case):
            lines.append(f"- {code(case.case)} {escape(wrong)}")
        elif case.state != "compared":
            lines.append(f"- {code(case.case)} {STATES[case.state]}: {escape(case.reason)}")
        elif case.reason:
            lines.append(f"- {code(case.case)} {escape(case.reason)}")
        lines += [f"- {code(case.case)} leaks: {escape(leak)}" for leak in case.leaks]
    return _first(lines)


def _row(case: CaseChange, change: Change) -> str:
    verdict = f"**{change.verdict}**" if change.regression else change.verdict
    cells = (
        code(case.case, cell=True),
        change.metric,
        *before_and_now(change),
        change_of(change),
        verdict,
        escape(remark(change)),
    )
    return "| " + " | ".join(cells) + " |"


def _table(changes: list[tuple[CaseChange, Change]], room: int) -> list[str]:
    """As many rows as there is room for, in characters, and how many have none."""
    rows = [_row(case, change) for case, change in changes]
    fitting = sum(end <= room for end in accumulate(len(row) + 1 for row in rows))
    left = len(rows) - fitting
    return [HEAD, RULE, *rows[:fitting], *(["", f"and {left} more (`--format json` has all)"] if left else [])]


def _differing(report: Report) -> list[str]:
    """What the steps that got worse do otherwise: operators and kernels that appeared, vanished, slowed."""
    lines = []
    cases = [case for case in report.bad if case.differing]
    for case in cases[:MOST_DIFFERING_CASES]:
        told = "profiled side by side" if case.differing_by == "profile" else "counted in the records"
        lines += [f"### What {code(case.case)} does otherwise", ""]
        lines += [f"Per step, {told}:", "", DIFFERING_HEAD, DIFFERING_RULE]
        lines += [_differing_row(one) for one in case.differing[:MOST_DIFFERING]]
        if len(case.differing) > MOST_DIFFERING:
            lines += ["", f"and {len(case.differing) - MOST_DIFFERING} more (`--format json` has all)"]
        lines.append("")
    left = len(cases) - MOST_DIFFERING_CASES
    return [*lines, f"and {left} more cases (`--format json` has all)", ""] if left > 0 else lines


def _differing_row(one: Differing) -> str:
    calls = (
        f"{one.before_calls:g}"
        if one.before_calls == one.after_calls
        else (f"{one.before_calls:g} → {one.after_calls:g}")
    )
    times = [seconds(value) if value else "" for value in (one.before_s, one.after_s)]
    return "| " + " | ".join((one.status, one.what, code(one.name, cell=True), calls, *times)) + " |"


def _rest(report: Report, room: int) -> list[str]:
    """Everything else, folded away."""
    quiet = [(case, c) for case in report.cases for c in case.changes if not _is_news(c)]
    if not quiet:
        return []
    return [f"<details><summary>{several(len(quiet), 'figure')} without a change, or undecided</summary>", "",
            *_table(quiet, room), "", "</details>", ""]  # fmt: skip


def _sureness(report: Report) -> list[str]:
    """How sure it is, in words that hold for this report: a stored baseline is another day's machine."""
    changes = [change for case in report.cases for change in case.changes]
    again = [change for change in changes if change.stage != "first"]
    if again:
        told = "Each suspected regression was measured again in fresh processes, and its figures are those. "
        chance = f"the chance of any false alarm is at most {report.level:.1%}"
        if all(change.paired for change in again):
            return [f"{told}Where nothing has changed, {chance}: both versions were measured side by side."]
        return [
            f"{told}The baseline was stored, not measured again: on a machine that is just as it was, {chance}. "
            "What has changed in the machine since cannot be told from a change of the code, by any rule."
        ]
    told = (
        "Intervals are 95 %, from the medians of fresh processes; false discoveries are held to "
        f"{report.level:.1%} over all figures together"
    )
    if all(change.paired or change.exact for change in changes):
        return [f"{told}."]
    return [f"{told}, on a machine that was the same for both sides: they were not measured side by side."]


def _where(report: Report) -> list[str]:
    facts = ", ".join(f"{name} {escape(fact)}" for name, fact in report.environment.items())
    return [f"Environment: {facts}"] if facts else []
