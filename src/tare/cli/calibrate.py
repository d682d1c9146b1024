"""tare calibrate: the noise of each case on this machine, and what change it can detect."""

from pathlib import Path
from typing import Annotated

import typer

from tare.cli.guarding import MetricOption, ThresholdsOption, read_rules
from tare.cli.options import (
    BudgetOption,
    DeviceOption,
    JsonOption,
    StoreOption,
    complete_rungs,
    complete_targets,
    given,
    make_table,
    print_json,
)
from tare.errors import BadInput, Interrupted

# Small workloads of different kinds.
SMOKE = ("mlp", "mnist_cnn", "lstm")
ROUNDS = 12


def calibrate(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKLOAD|PLAN.toml]...", autocompletion=complete_targets, help=f"Default: {' '.join(SMOKE)}."
        ),
    ] = None,
    rung: Annotated[
        list[str] | None,
        typer.Option(help="Rungs, for workloads (default: eager).", autocompletion=complete_rungs),
    ] = None,
    device: DeviceOption = None,
    rounds: Annotated[int, typer.Option(help="Fresh processes per case.")] = ROUNDS,
    budget: BudgetOption = None,
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was interrupted.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure the noise of this machine.

    Measures one version against itself: the noise between processes, the changes that it hides, and how many
    rounds it takes to see them.
    """
    from tare.cases.plan import make_plan, read_plan
    from tare.commands.run import Session
    from tare.guard.calibrate import calibrate as measure_noise
    from tare.guard.calibrate import refuse_empty
    from tare.guard.metrics import why_impossible
    from tare.report.noise import noise_view
    from tare.report.terminal import make_console

    if rounds < 4:
        raise BadInput(f"--rounds {rounds}: four processes are the fewest that show their noise")
    names = targets or list(SMOKE)
    files = [name for name in names if name.endswith(".toml")]
    if files and (len(names) > 1 or rung or device):
        raise BadInput("give one plan, or workloads with --rung and --device, not both")
    grid = {"workload": names, **make_table(rung=rung or ["eager"], device=device)}
    plan = read_plan(Path(files[0])) if files else make_plan({"grid": [grid]}, "the command line", "calibration")
    rules = read_rules(metric, thresholds, Path(files[0]) if files else None)
    if all(chosen.exact for chosen in rules.metrics):
        raise BadInput(f"--metric {','.join(metric or ())}: a count has no noise to calibrate")
    options = given(rounds=rounds, budget=budget)
    session = Session(
        plan, options, quick=False, store=store, show_progress=not as_json,
        unwanted=lambda case: why_impossible(case, rules.metrics),
    )  # fmt: skip
    outcome = session.run(resume, fail_fast=False)
    lines = measure_noise(outcome.records, rules.thresholds, rules.metrics)
    if not outcome.interrupted:
        refuse_empty(lines, outcome.records, rules.metrics)
    if as_json:
        failed = {record.case.key: record.failure for record in outcome.records if record.failure}
        print_json({"run": outcome.run, "noise": lines, "failed": failed})
    else:
        make_console().print(noise_view(lines, outcome.records))
    if outcome.interrupted:
        raise Interrupted
    return outcome.exit_code
