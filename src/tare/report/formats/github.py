"""Annotations of a GitHub Actions job, shown beside the run and the pull request: one line per regression."""

from tare.guard.changes import Report
from tare.report.changes import MAX_KEYS, only_in, problems, summary_line
from tare.report.formats import comparison_format
from tare.system.text import printable


@comparison_format("github", "annotations of a GitHub Actions job")
def comparison_github(report: Report) -> str:
    lines = [_command(problem.level, problem.case, problem.text) for problem in problems(report)]
    for label, keys in only_in(report).items():
        more = f" and {len(keys) - MAX_KEYS} more" if len(keys) > MAX_KEYS else ""
        text = f"not compared, only in {label}: {', '.join(keys[:MAX_KEYS])}{more}"
        lines.append(_command("warning", "not compared", text))
    lines += [_command("notice", "note", note) for note in report.notes]
    lines.append(_command("notice", "tare", summary_line(report)))
    return "\n".join(lines) + "\n"


def _command(kind: str, title: str, text: str) -> str:
    """A workflow command. In a property, such as the title, the colon and the comma are escaped too."""
    head = _escape(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={head}::{_escape(text)}"


def _escape(text: str) -> str:
    return "%0A".join(printable(line).replace("%", "%25") for line in text.splitlines())
