"""tare run: measure workloads, or a plan, and print the ladders."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import (
    BatchOption,
    BudgetOption,
    DeviceOption,
    FeedOption,
    IsolationOption,
    JsonOption,
    LayoutOption,
    ModeOption,
    OptimizerOption,
    PrecisionOption,
    QuickOption,
    RecordedOption,
    RoundsOption,
    SizeOption,
    SmokeOption,
    StoreOption,
    ThreadsOption,
    TimeoutOption,
    complete_rungs,
    complete_targets,
    given,
    make_table,
    print_json,
)
from tare.errors import BadInput


def run(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKLOAD|@GROUP|PLAN.toml...", autocompletion=complete_targets, show_default=False
        ),
    ],
    rung: Annotated[
        list[str] | None,
        typer.Option(help="Rungs (default: the ladder; for a group, eager).", autocompletion=complete_rungs),
    ] = None,
    mode: ModeOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: BatchOption = None,
    size: SizeOption = None,
    smoke: SmokeOption = False,
    feed: FeedOption = None,
    layout: LayoutOption = None,
    optimizer: OptimizerOption = None,
    threads: ThreadsOption = None,
    rounds: RoundsOption = None,
    budget: BudgetOption = None,
    timeout: TimeoutOption = None,
    width: Annotated[float | None, typer.Option(help="Stop when the median is known this well (0.01).")] = None,
    isolation: IsolationOption = None,
    memory: Annotated[int | None, typer.Option(min=1, help="MiB of host memory a worker may use.")] = None,
    parity: Annotated[
        bool | None, typer.Option("--parity/--no-parity", help="Compare every rung with float64.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="What to compare with: float64, or float32 for less than that (float64).")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Prepare this many cases at a time; measure one at a time (1).")
    ] = None,
    quick: QuickOption = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where this plan was interrupted.")] = False,
    recorded: RecordedOption = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first case that fails.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, and stop.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure workloads on every rung; print and store the ladders.

    Every rung is compared with a float64 reference. Name workloads, groups, or one plan.
    """
    from tare.commands.dry_run import DryRun
    from tare.commands.run import RunResult, Session

    grid = make_table(
        rung=rung, mode=mode, device=device, precision=precision, batch=batch, auto=True, size=size, feed=feed,
        layout=layout, optimizer=optimizer, threads=threads,
    )  # fmt: skip
    session = Session(
        plan=_plan(targets, grid | ({"smoke": True} if smoke else {})),
        options=given(
            rounds=rounds, budget=budget, timeout=timeout, width=width, isolation=isolation, parity=parity,
            reference=reference, jobs=jobs, memory=None if memory is None else memory * 2**20,
        ),
        quick=quick,
        store=store,
        show_progress=not as_json,
    )  # fmt: skip
    if dry_run and resume:
        raise BadInput("--dry-run does not know what an interrupted run has measured: leave out --resume")
    result: RunResult | DryRun
    if dry_run:
        result = session.dry_run(recorded)
    else:
        result = session.run(resume=resume, fail_fast=fail_fast, recorded=recorded)
    if as_json:
        print_json(result.document())
    else:
        result.render()
    return result.exit_code


def _plan(targets: list[str], grid: dict[str, Any]) -> Any:
    from tare.cases.plan import make_plan, read_plan

    files = [target for target in targets if target.endswith(".toml")]
    if not files:
        return make_plan({"grid": [{"workload": targets, **grid}]}, "the command line", "-".join(targets)[:60])
    if len(targets) > 1:
        raise BadInput("give one plan, or workloads, not both")
    if grid:
        raise BadInput(f"--{next(iter(grid))} is for workloads; in a plan the file says it ({files[0]})")
    return read_plan(Path(files[0]))
