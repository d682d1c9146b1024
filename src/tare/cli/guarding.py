"""Options and output that the verbs of the guard share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tare.cli.options import print_json, split

if TYPE_CHECKING:
    from tare.guard.changes import Report
    from tare.guard.check import Rules

MetricOption = Annotated[list[str] | None, typer.Option("--metric", help="Only these metrics (default: all).")]
ThresholdsOption = Annotated[
    Path | None,
    typer.Option("--thresholds", metavar="FILE.toml", help="Default: PLAN.guard.toml next to the plan."),
]
FormatOption = Annotated[
    str, typer.Option("--format", help="terminal, markdown, json, github, junit, sarif, benchmark.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Compare across environments, and report the difference.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Also show unchanged figures.")]


def read_rules(
    metric: list[str] | None, thresholds: Path | None, plan: Path | None, confirm_rounds: int | None = None
) -> "Rules":
    from tare.guard.check import Rules
    from tare.guard.metrics import chosen
    from tare.guard.thresholds import Thresholds, beside, read_thresholds

    metrics = chosen(split(metric, "--metric") or None)
    if thresholds is None and plan is not None and beside(plan).exists():
        thresholds = beside(plan)
    return Rules(read_thresholds(thresholds) if thresholds else Thresholds(), metrics, confirm_rounds)


def check_form(format: str, output: Path | None) -> None:
    """Refuses an unknown format, and a place where no file can be, before anything is measured."""
    from tare.report.files import check_writable
    from tare.report.formats import get_renderer

    if format not in ("terminal", "json"):
        get_renderer(format)
    if output is not None:
        check_writable(output)


def put(report: "Report", format: str, output: Path | None, everything: bool) -> None:
    """The report to standard output or a file; beside a file, the terminal's view is printed as well."""
    from tare.report.changes import changes_view
    from tare.report.files import write_whole
    from tare.report.formats import get_renderer
    from tare.report.terminal import make_console, plain_text

    if format == "terminal" or output is not None:
        make_console(stderr=output is not None).print(changes_view(report, everything))
    if output is None:
        if format == "json":
            print_json(report)
        elif format != "terminal":
            typer.echo(get_renderer(format)(report), nl=False)
        return
    if format == "terminal":
        text = plain_text(changes_view(report, everything))
    else:
        text = _json(report) if format == "json" else get_renderer(format)(report)
    write_whole(output, text)


def _json(report: "Report") -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
