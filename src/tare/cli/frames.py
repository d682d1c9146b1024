"""tare frames: how deep the vendor library lies under each rung, and what that costs."""

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
    from tare.commands.frames import Frames


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
    warm: Annotated[
        int | None, typer.Option(help="Compile and count this many rungs at a time (default: one).")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Count the frames between a call and the vendor library.

    From the user's call to the first convolution (or matrix product) of the vendor library, on every rung.
    """
    from tare.cases.options import make_options
    from tare.commands.frames import study
    from tare.report.terminal import make_console

    grid = make_table(
        rung=rung, mode=mode, device=device, precision=precision, batch=batch, size=size, layout=layout
    )
    options = make_options(given(rounds=rounds, budget=budget, timeout=timeout, warm=warm), "the command line")
    with make_console(stderr=True).status("") as status:
        found = study(workload, grid, options, cost, status.update)
    if as_json:
        print_json(found)
    else:
        _show(found, stack)
    if found.interrupted:
        raise Interrupted("the rungs that were ready are shown, and the others are missing")
    return found.exit_code


def _show(found: "Frames", stack: bool) -> None:
    from tare.report.frames import cost_view, depth_view, stack_view
    from tare.report.terminal import make_console, skipped_view

    console = make_console()
    for ladder in found.ladders():
        console.print(depth_view(ladder))
    if stack:
        for depth in found.depths:
            console.print(stack_view(depth))
    if found.cost:
        console.print(cost_view(found.cost))
    if found.skipped:
        console.print(skipped_view(found.skipped))
