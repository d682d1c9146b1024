"""The body of an issue or a pull-request comment: what, how much, how sure, where, how to reproduce."""

from tare.guard.changes import CaseChange, Change, Report
from tare.report.changes import STATES, change_of, remark, summary_line, value

HEAD = "| case | metric | before | now | change | verdict | |"
RULE = "| --- | --- | ---: | ---: | ---: | --- | --- |"


def render(report: Report) -> str:
    lines = [f"## {'❌' if report.bad else '✅'} {escape(summary_line(report))}", ""]
    lines += [f"{escape(report.b)} against {escape(report.a)}", ""]
    lines += [f"- **not comparable, and forced**: {escape(line)}" for line in report.forced]
    lines += [f"- compared: {escape(line)}" for line in report.compared]
    if report.forced or report.compared:
        lines.append("")
    lines += _broken(report)
    told = [(case, change) for case in report.cases for change in case.changes if _is_news(change)]
    if told:
        told.sort(key=lambda pair: not pair[1].regression)
        lines += [HEAD, RULE, *(_row(case, change) for case, change in told), ""]
    lines += _rest(report)
    lines += [f"- {escape(note)}" for note in report.notes]
    lines += ["", *_sureness(report), "", *_where(report)]
    if report.command:
        lines += ["", "To reproduce:", "", "```", " ".join(report.command.replace("`", "'").split()), "```"]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """One line that Markdown shows as it is, in a table as well."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _is_news(change: Change) -> bool:
    return change.worse or change.verdict not in ("same", "undecided")


def _broken(report: Report) -> list[str]:
    lines = []
    for case in report.cases:
        if case.state != "compared":
            lines.append(f"- `{escape(case.case)}` {STATES[case.state]}: {escape(case.reason)}")
        lines += [f"- `{escape(case.case)}` leaks: {escape(leak)}" for leak in case.leaks]
    return [*lines, ""] if lines else []


def _row(case: CaseChange, change: Change) -> str:
    verdict = f"**{change.verdict}**" if change.regression else change.verdict
    cells = (
        f"`{escape(case.case)}`",
        change.metric,
        value(change.a, change.unit),
        value(change.b, change.unit),
        change_of(change),
        verdict,
        escape(remark(change)),
    )
    return "| " + " | ".join(cells) + " |"


def _rest(report: Report) -> list[str]:
    """Everything else, folded away."""
    quiet = [(case, c) for case in report.cases for c in case.changes if not _is_news(c)]
    if not quiet:
        return []
    count = len(quiet)
    rows = [_row(case, change) for case, change in quiet]
    return [f"<details><summary>{count} figures without a change, or undecided</summary>", "",
            HEAD, RULE, *rows, "", "</details>", ""]  # fmt: skip


def _sureness(report: Report) -> list[str]:
    """How sure it is, in words that hold for this report."""
    changes = [change for case in report.cases for change in case.changes]
    if any(change.stage != "first" for change in changes):
        return [
            "Each suspected regression was measured again in fresh processes, and its figures are those. "
            f"The chance of any false alarm is at most {report.level:.1%}."
        ]
    return [
        "Intervals are 95 %, from the medians of fresh processes; false discoveries are held to "
        f"{report.level:.1%} over all figures together."
    ]


def _where(report: Report) -> list[str]:
    facts = ", ".join(f"{name} {escape(fact)}" for name, fact in report.environment.items())
    return [f"Environment: {facts}"] if facts else []
