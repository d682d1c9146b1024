"""tare run: measure workloads, or a plan, and print the ladders."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import JsonOption, StoreOption, batches, print_json, sizes, split, whole_numbers
from tare.errors import BadInput

Values = Annotated[list[str] | None, typer.Option()]


def run(
    targets: Annotated[list[str], typer.Argument(metavar="WORKLOAD|@GROUP|PLAN.toml...", show_default=False)],
    rung: Annotated[list[str] | None, typer.Option(help="Rungs (default: the ladder; of a group, eager).")] = None,
    mode: Annotated[list[str] | None, typer.Option(help="infer, train.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="auto, cpu, cuda, cuda:1, mps, xpu, all.")] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="fp32, tf32, bf16, fp16, amp-bf16, amp-fp16.")
    ] = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch sizes, or auto (default: its own).")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Sizes of the workload: NAME=N[,N].")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="The workloads' small sizes, for a CPU.")] = False,
    feed: Annotated[list[str] | None, typer.Option(help="device, pinned, pageable.")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="contiguous, channels-last.")] = None,
    optimizer: Annotated[list[str] | None, typer.Option(help="sgd, adam, adamw.")] = None,
    threads: Annotated[list[str] | None, typer.Option(help="CPU threads (default: torch's).")] = None,
    rounds: Annotated[int | None, typer.Option(help="Fresh processes a case (default 3).")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds of sampling a case (default 12).")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a round is killed.")] = None,
    width: Annotated[float | None, typer.Option(help="Stop when the median is known this well (0.01).")] = None,
    isolation: Annotated[str | None, typer.Option(help="fork (cheap) or spawn (nothing shared).")] = None,
    memory: Annotated[int | None, typer.Option(help="MiB of host memory a worker may use.")] = None,
    parity: Annotated[bool | None, typer.Option("--parity/--no-parity", help="Prove the rungs equal.")] = None,
    warm: Annotated[int | None, typer.Option(help="Compile this many cases at a time, ahead (default 0).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One round, two seconds a case.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where this plan was interrupted.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first case that fails.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure workloads on every rung, prove the rungs equal, print the ladders, store the records."""
    from tare.session import Session

    grid: dict[str, Any] = {
        "rung": split(rung or []),
        "mode": split(mode or []),
        "device": split(device or []),
        "precision": split(precision or []),
        "batch": batches(batch or []),
        "size": sizes(size or []),
        "smoke": smoke,
        "feed": split(feed or []),
        "layout": split(layout or []),
        "optimizer": split(optimizer or []),
        "threads": whole_numbers(threads or [], "--threads"),
    }
    options = {
        "rounds": rounds,
        "budget": budget,
        "timeout": timeout,
        "width": width,
        "isolation": isolation,
        "memory": None if memory is None else memory * 2**20,
        "parity": parity,
        "warm": warm,
    }
    plan = _plan(targets, {name: value for name, value in grid.items() if value})
    session = Session(
        plan=plan,
        options={name: value for name, value in options.items() if value is not None},
        quick=quick,
        store=store,
        show_progress=not as_json,
    )
    outcome = session.run(resume=resume, fail_fast=fail_fast)
    if as_json:
        print_json(outcome.document())
    else:
        outcome.render()
    return outcome.exit_code


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
