"""tare check: measure a plan, compare it with the baseline, exit 1 on a regression."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tare.cli.guarding import (
    AllOption,
    ForceOption,
    FormatOption,
    MetricOption,
    ThresholdsOption,
    check_output,
    parse_variables,
    read_rules,
    write_report,
)
from tare.cli.options import (
    BudgetOption,
    IsolationOption,
    JsonOption,
    OutputOption,
    StoreOption,
    TimeoutOption,
    given,
)
from tare.errors import BadInput, Interrupted


def check(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", show_default=False)],
    baseline: Annotated[str | None, typer.Option(help="The baseline's name (tare baseline set NAME).")] = None,
    baseline_python: Annotated[
        Path | None,
        typer.Option(metavar="PYTHON", help="Run the baseline's version side by side: its interpreter."),
    ] = None,
    baseline_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Likewise: a variable set for the baseline's side."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Fresh processes per case and side (default 6).")] = None,
    confirm: Annotated[
        int | None,
        typer.Option(metavar="ROUNDS", help="Rounds to confirm a suspect (default: by the noise; 0: none)."),
    ] = None,
    budget: BudgetOption = None,
    timeout: TimeoutOption = None,
    isolation: IsolationOption = None,
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    diff: Annotated[
        bool, typer.Option("--diff/--no-diff", help="Profile regressed cases on both sides, if both can be run.")
    ] = True,
    force: ForceOption = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where this check was interrupted.")] = False,
    everything: AllOption = False,
    format: FormatOption = "terminal",
    output: OutputOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure a plan and compare it with a baseline.

    Suspects are measured again. Exit code 1 on a regression.
    """
    from tare.cases.plan import read_plan
    from tare.commands.check import CheckSession, Version, reproduce

    format = "json" if as_json else format
    check_output(format, output)
    if baseline is None and baseline_python is None and not baseline_env:
        raise BadInput("nothing to compare with: name --baseline, or --baseline-python for its version")
    if confirm is not None and not 0 <= confirm <= 1000:
        raise BadInput(f"--confirm takes 0 to 1000 rounds, not {confirm}")
    if baseline_python is not None and not baseline_python.is_file():
        raise BadInput(f"--baseline-python: there is no {baseline_python}")
    session = CheckSession(
        plan=read_plan(plan),
        options=given(rounds=rounds, budget=budget, timeout=timeout, isolation=isolation),
        rules=read_rules(metric, thresholds, plan, confirm),
        store=store,
        show_progress=format != "json",
    )
    version = None
    if baseline_python is not None or baseline_env:
        python = str(baseline_python) if baseline_python else sys.executable
        version = Version(python=python, variables=parse_variables(baseline_env or [], "--baseline-env"))
    report = session.run(baseline, version, resume, force, diff)
    if report.interrupted:
        raise Interrupted
    report.command = reproduce(sys.argv[1:])
    write_report(report, format, output, everything)
    return report.exit_code
