"""tare run and coverage: measure workloads, count what of torch they call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tare.cli.fleet import (
    CalibratedOption,
    DriftOption,
    JobsPerNodeOption,
    NodeOption,
    OnOption,
    read_fleet_target,
)
from tare.cli.options import (
    MEASURING,
    ColumnsOption,
    EnvironmentOption,
    JsonOption,
    QuickOption,
    RecordedOption,
    ResumeOption,
    StoreOption,
    TagOption,
    grid_options,
    make_table,
    name_environments,
    option_groups,
    print_json,
    print_result,
    read_targets,
    target_argument,
    whole_numbers,
)
from tare.errors import BadInput

if TYPE_CHECKING:
    from tare.cases.plan import Plan
    from tare.commands.fleet import FleetTarget


@option_groups(grid=grid_options("default: the ladder; for a group, eager"), measuring=MEASURING)
def run(
    targets: Annotated[list[str], target_argument("WORKLOAD|@GROUP|PLAN.toml")],
    grid: dict[str, Any],
    measuring: dict[str, Any],
    quick: QuickOption = False,
    resume: ResumeOption = False,
    recorded: RecordedOption = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first case that fails.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, and stop.")] = False,
    columns: ColumnsOption = None,
    tag: TagOption = None,
    env: EnvironmentOption = None,
    allow_exit: Annotated[
        list[str] | None,
        typer.Option(metavar="N,N", help="Exit statuses besides 0 that are no failure of a command."),
    ] = None,
    on: OnOption = None,
    jobs_per_node: JobsPerNodeOption = None,
    node: NodeOption = None,
    calibrated: CalibratedOption = True,
    drift: DriftOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure workloads on every rung; print and store the ladders.

    Every rung is compared with a float64 reference. Name workloads, groups, or one plan. Or measure any command:
    tare run -- COMMAND ARGUMENT...
    """
    from tare.commands.run import DryRun, RunResult, Session
    from tare.records.tags import read_tags
    from tare.report.ladder import read_columns
    from tare.workloads.commands import allow_statuses, is_command

    target = read_fleet_target(on, jobs_per_node, node, calibrated, drift)
    name_environments(env)
    wanted = read_columns(columns) if columns is not None else ()
    plan = read_targets(targets, make_table(grid, auto=True))
    if is_command(targets[0]):
        if unused := [name for name in ("parity", "reference") if name in measuring]:
            raise BadInput(f"--{unused[0]} is for workloads: a command has nothing to compare")
        allow_statuses(targets[0], whole_numbers(allow_exit, "--allow-exit"))
    elif allow_exit:
        raise BadInput("--allow-exit is for a command: tare run --allow-exit 1 -- COMMAND ARGUMENT...")
    if "memory" in measuring:
        measuring["memory"] *= 2**20
    if target is not None:
        refused = {"--dry-run": dry_run, "--recorded": recorded, "--env": env, "--jobs": "jobs" in measuring}
        return _run_on_fleet(
            target, plan, measuring, quick, store, tag, resume, fail_fast, refused, wanted, as_json
        )
    session = Session(plan, measuring, quick, store, show_progress=not as_json, tags=read_tags(tag or []))
    if dry_run and resume:
        raise BadInput("--dry-run does not know what an interrupted run has measured: leave out --resume")
    result: RunResult | DryRun
    result = session.dry_run(recorded) if dry_run else session.run(resume, fail_fast, recorded)
    if as_json:
        print_json(result.document())
    else:
        result.render(wanted)
    return result.exit_code


def _run_on_fleet(
    target: "FleetTarget",
    plan: "Plan",
    measuring: dict[str, Any],
    quick: bool,
    store: str | None,
    tag: list[str] | None,
    resume: bool,
    fail_fast: bool,
    refused: dict[str, Any],
    columns: Sequence[str],
    as_json: bool,
) -> int:
    from tare.commands.fleet import FleetSession
    from tare.records.tags import read_tags
    from tare.workloads.commands import is_command

    for option, given in refused.items():
        if given:
            remedy = ": with --on it is --jobs-per-node" if option == "--jobs" else " and --on do not go together"
            raise BadInput(option + remedy)
    if any(is_command(name) for grid in plan.grids for name in grid.workload):
        raise BadInput("a command is measured on this machine: leave out --on")
    session = FleetSession(plan, measuring, quick, store, show_progress=not as_json, tags=read_tags(tag or []))
    result = session.run_on(target, resume, fail_fast)
    if as_json:
        print_json(result.document())
    else:
        result.render(columns)
    return result.exit_code


def coverage(
    targets: Annotated[list[str] | None, target_argument("WORKLOAD|@GROUP", show_default="@zoo")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...: a device has operators of its own.")] = "cpu",
    as_json: JsonOption = False,
) -> int:
    """Count how much of torch's API the workloads call.

    Runs them under interception, at smoke size, in eager, for inference and training.
    """
    from tare.commands.machine import cover_workloads
    from tare.report.coverage import coverage_view

    covered = cover_workloads(targets or ["@zoo"], device, show_progress=not as_json)
    print_result(as_json, covered, lambda: coverage_view(covered))
    return 1 if covered.failed else 0
