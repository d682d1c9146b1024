"""tare frames: how deep the vendor library lies under each rung, and what that costs."""

from typing import Annotated, Any

import typer

from tare.cli.options import JsonOption, print_json, sizes, split, whole_numbers


def frames(
    workload: Annotated[str, typer.Argument(show_default=False)],
    rung: Annotated[list[str] | None, typer.Option(help="Rungs (default: every one in the ladder).")] = None,
    mode: Annotated[list[str] | None, typer.Option(help="infer, train.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="fp32, tf32, bf16, fp16, amp-bf16, amp-fp16.")
    ] = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch size (default: the workload's).")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Sizes of the workload: NAME=N.")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="contiguous, channels-last.")] = None,
    stack: Annotated[bool, typer.Option("--stack", help="Print the stacks.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Also time what a call costs on each rung.")] = False,
    rounds: Annotated[int | None, typer.Option(help="Fresh processes a timed case (default 3).")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds of sampling a timed case (default 12).")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a worker is killed.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Count the stack frames between the user's call and the vendor library's convolution, on every rung."""
    grid: dict[str, Any] = {
        "rung": split(rung or []),
        "mode": split(mode or []),
        "device": split(device or []),
        "precision": split(precision or []),
        "batch": whole_numbers(batch or [], "--batch"),
        "size": sizes(size or []),
        "layout": split(layout or []),
    }
    options = {"rounds": rounds, "budget": budget, "timeout": timeout}
    from tare.cases.options import make_options
    from tare.frames.study import study
    from tare.report.frames import cost_view, depth_view, stack_view
    from tare.report.terminal import make_console, skipped_view

    checked = make_options(
        {name: value for name, value in options.items() if value is not None}, "the command line"
    )
    with make_console(stderr=True).status("") as status:
        given = {name: values for name, values in grid.items() if values}
        found = study(workload, given, checked, cost, status.update)
    if as_json:
        print_json(found)
        return found.exit_code
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
    return found.exit_code
