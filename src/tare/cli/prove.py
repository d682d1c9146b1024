"""tare prove: train on real data on every rung, and compare the losses."""

from typing import Annotated

import typer

from tare.cli.options import (
    DeviceOption,
    JsonOption,
    LayoutOption,
    OptimizerOption,
    PrecisionOption,
    SizeOption,
    ThreadsOption,
    complete_rungs,
    complete_targets,
    make_table,
    print_json,
)
from tare.errors import BadInput, Interrupted


def prove(
    workload: Annotated[str, typer.Argument(show_default=False, autocompletion=complete_targets)],
    rung: Annotated[
        list[str] | None,
        typer.Option(help="Rungs (default: every one that trains).", autocompletion=complete_rungs),
    ] = None,
    steps: Annotated[int, typer.Option(help="Training steps, each with a batch of its own.")] = 50,
    data: Annotated[str, typer.Option(help="digits (scikit-learn's handwritten digits).")] = "digits",
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch sizes (default: 16).")] = None,
    size: SizeOption = None,
    layout: LayoutOption = None,
    optimizer: OptimizerOption = None,
    threads: ThreadsOption = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a worker is killed.")] = 900.0,
    as_json: JsonOption = False,
) -> int:
    """Train on real data on every rung, and compare the losses.

    Each step's loss is compared with that of eager in float64.
    """
    from tare.cases.options import make_options
    from tare.commands.prove import prove_curves
    from tare.report.curves import curves_view
    from tare.report.terminal import make_console, skipped_view

    if not 1 <= steps <= 10_000:
        raise BadInput(f"--steps is between 1 and 10000, not {steps}")
    grid = make_table(
        rung=rung, device=device, precision=precision, batch=batch, size=size, layout=layout,
        optimizer=optimizer, threads=threads,
    )  # fmt: skip
    with make_console(stderr=True).status("") as status:
        proof = prove_curves(workload, grid, data, steps, make_options({"timeout": timeout}), status.update)
    if as_json:
        print_json(proof)
    else:
        console = make_console()
        console.print(curves_view(proof.curves, proof.data, proof.steps))
        console.print(skipped_view(proof.skipped))
    if proof.interrupted:
        raise Interrupted("the curves that are complete are shown, the others are missing")
    return proof.exit_code
