"""Options and output that check, compare, calibrate and bisect share."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tare.cli.options import split
from tare.errors import BadInput

if TYPE_CHECKING:
    from tare.guard.changes import Report
    from tare.guard.check import Rules

MetricOption = Annotated[list[str] | None, typer.Option("--metric", help="Only these metrics (default: all).")]
ThresholdsOption = Annotated[
    Path | None,
    typer.Option("--thresholds", metavar="FILE.toml", help="Default: PLAN.guard.toml next to the plan."),
]
FormatOption = Annotated[
    str,
    typer.Option("--format", help="terminal, or one of tare list formats: markdown, json, ..., junit."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Compare across environments, and report the difference.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Also show unchanged figures.")]


def read_rules(
    metric: list[str] | None, thresholds: Path | None, plan: Path | None, confirm_rounds: int | None = None
) -> "Rules":
    from tare.guard.check import Rules
    from tare.guard.metrics import get_metrics
    from tare.guard.thresholds import Thresholds, read_thresholds, thresholds_path

    metrics = get_metrics(split(metric, "--metric") or None)
    if thresholds is None and plan is not None and thresholds_path(plan).exists():
        thresholds = thresholds_path(plan)
    return Rules(read_thresholds(thresholds) if thresholds else Thresholds(), metrics, confirm_rounds)


def check_output(format: str, output: Path | None) -> None:
    """Refuses an unknown format and a file that cannot be written, before anything is measured."""
    from tare.report.files import check_writable
    from tare.report.formats import get_comparison_format

    if format != "terminal":
        get_comparison_format(format)
    if output is not None:
        check_writable(output)


def write_report(report: "Report", format: str, output: Path | None, everything: bool) -> None:
    """Writes the report to standard output or a file; with a file, the terminal's view goes to standard error."""
    from tare.report.changes import changes_view
    from tare.report.files import write_whole
    from tare.report.formats import get_comparison_format
    from tare.report.terminal import make_console, plain_text

    if format == "terminal" or output is not None:
        make_console(stderr=output is not None).print(changes_view(report, everything))
    if format != "terminal":
        text = get_comparison_format(format)(report)
    else:
        text = plain_text(changes_view(report, everything)) if output is not None else ""
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text)


def parse_variables(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Environment variables from NAME=VALUE."""
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise BadInput(f"{option} takes NAME=VALUE, not '{pair[:60]}'")
        variables[name] = value
    return variables
