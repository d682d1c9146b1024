"""tare frames: the call depth from the user's call to the vendor library, and what a call costs."""

from typing import TYPE_CHECKING, Annotated

import typer

from tare.cli.options import (
    DeviceOption,
    JsonOption,
    LayoutOption,
    ModeOption,
    PrecisionOption,
    SizeOption,
    complete_rungs,
    given,
    make_table,
    print_json,
)
from tare.errors import Interrupted

if TYPE_CHECKING:
    from tare.commands.frames import FrameCounts


def frames(
    workload: Annotated[str, typer.Argument(show_default=False)],
    rung: Annotated[
        list[str] | None,
        typer.Option(help="Rungs (default: every one in the ladder).", autocompletion=complete_rungs),
    ] = None,
    mode: ModeOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch size (default: the workload's).")] = None,
    size: SizeOption = None,
    layout: LayoutOption = None,
    stack: Annotated[bool, typer.Option("--stack", help="Print the stacks.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Also time what a call costs on each rung.")] = False,
    rounds: Annotated[int | None, typer.Option(help="Fresh processes per timed case (default 3).")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds of sampling per timed case (default 12).")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a worker is killed.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Compile and count this many rungs at a time (1).")] = None,
    as_json: JsonOption = False,
) -> int:
    """Count the call depth between your call and the vendor library.

    On every rung, the stack frames from the user's call to the first convolution (or matrix product) of the vendor
    library.
    """
    from tare.cases.options import make_options
    from tare.commands.frames import count_call_depths
    from tare.report.terminal import make_console

    grid = make_table(
        rung=rung, mode=mode, device=device, precision=precision, batch=batch, size=size, layout=layout
    )
    options = make_options(given(rounds=rounds, budget=budget, timeout=timeout, jobs=jobs), "the command line")
    with make_console(stderr=True).status("") as status:
        counts = count_call_depths(workload, grid, options, cost, status.update)
    if as_json:
        print_json(counts)
    else:
        _show(counts, stack)
    if counts.interrupted:
        raise Interrupted("the rungs that were ready are shown, and the others are missing")
    return counts.exit_code


def _show(counts: "FrameCounts", stack: bool) -> None:
    from tare.report.frames import cost_view, depth_view, stack_view
    from tare.report.terminal import make_console, skipped_view

    console = make_console()
    for ladder in counts.ladders():
        console.print(depth_view(ladder))
    if stack:
        for depth in counts.depths:
            console.print(stack_view(depth))
    if counts.cost:
        console.print(cost_view(counts.cost))
    if counts.skipped:
        console.print(skipped_view(counts.skipped))
