"""tare compare: two runs, versions, machines or branches, case by case."""

import sys
from typing import Annotated

import typer

from tare.cli.guarding import (
    AllOption,
    ForceOption,
    FormatOption,
    MetricOption,
    ThresholdsOption,
    check_output,
    read_rules,
    write_report,
)
from tare.cli.options import JsonOption, OutputOption, StoreOption, complete_rungs, split

SELECTOR = "BASELINE|RUN|newest[~N]|FILE.json|FIELD=VALUE"


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=f"Before: {SELECTOR}.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="Now: likewise.", show_default=False)],
    rung: Annotated[
        list[str] | None, typer.Option(help="Only these rungs.", autocompletion=complete_rungs)
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="Only cases whose key begins with this or fits this pattern.")
    ] = None,
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    force: ForceOption = False,
    everything: AllOption = False,
    format: FormatOption = "terminal",
    output: OutputOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare two sets of records, case by case.

    Per case: the ratio with its interval, a verdict, and what else differs.
    """
    from tare.commands.check import compare_stored, reproduce
    from tare.guard.thresholds import key_matches

    format = "json" if as_json else format
    check_output(format, output)
    rules = read_rules(metric, thresholds, plan=None)
    report = compare_stored(
        a, b, rules.thresholds, rules.metrics, store, force, split(rung, "--rung"),
        lambda candidate: case is None or key_matches(candidate.key, case),
    )  # fmt: skip
    report.command = reproduce(sys.argv[1:])
    write_report(report, format, output, everything)
    return report.exit_code
