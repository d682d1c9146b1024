"""Annotations of a GitHub Actions job, shown beside the run and the pull request: one line per regression."""

from tare.guard.changes import Report
from tare.report.changes import change_of, remark, summary_line, uncompared_lines, wrong_with
from tare.report.formats import comparison_format
from tare.system.text import printable


@comparison_format("github", "annotations of a GitHub Actions job")
def comparison_github(report: Report) -> str:
    lines = []
    for case in report.cases:
        if wrong := wrong_with(case):
            lines.append(_command("error", case.case, wrong))
        elif case.state == "compared" and case.reason:
            lines.append(_command("warning", case.case, case.reason))
        lines += [_command("error", case.case, f"leak: {leak}") for leak in case.leaks]
        for change in case.changes:
            if change.worse:
                text = f"{change.metric} is {change.verdict}: {change_of(change)}; {remark(change)}"
                lines.append(_command("error" if change.regression else "warning", case.case, text))
    lines += [_command("warning", "not comparable", line) for line in report.forced]
    lines += [_command("warning", "not compared", line) for line in uncompared_lines(report)]
    lines += [_command("notice", "note", note) for note in report.notes]
    lines.append(_command("notice", "tare", summary_line(report)))
    return "\n".join(lines) + "\n"


def _command(kind: str, title: str, text: str) -> str:
    """A workflow command. In a property, such as the title, the colon and the comma are escaped too."""
    head = _escape(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={head}::{_escape(text)}"


def _escape(text: str) -> str:
    return "%0A".join(printable(line).replace("%", "%25") for line in text.splitlines())
