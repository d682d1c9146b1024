"""tare prove: train on real data on every rung, and compare the losses."""

from typing import Annotated, Any

import typer

from tare.cli.options import JsonOption, print_json, sizes, split, whole_numbers
from tare.errors import BadInput


def prove(
    workload: Annotated[str, typer.Argument(show_default=False)],
    rung: Annotated[list[str] | None, typer.Option(help="Rungs (default: every one that trains).")] = None,
    steps: Annotated[int, typer.Option(help="Training steps, each with a batch of its own.")] = 50,
    data: Annotated[str, typer.Option(help="digits (scikit-learn's handwritten digits).")] = "digits",
    device: Annotated[list[str] | None, typer.Option(help="auto, cpu, cuda, cuda:1, mps, xpu, all.")] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="fp32, tf32, bf16, fp16, amp-bf16, amp-fp16.")
    ] = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch sizes (default: 16).")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Sizes of the workload: NAME=N[,N].")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="contiguous, channels-last.")] = None,
    optimizer: Annotated[list[str] | None, typer.Option(help="sgd, adam, adamw.")] = None,
    threads: Annotated[list[str] | None, typer.Option(help="CPU threads (default: torch's).")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a worker is killed.")] = 900.0,
    as_json: JsonOption = False,
) -> int:
    """Train a workload on real data on every rung, and compare each step's loss with eager in float64."""
    if not 1 <= steps <= 10_000:
        raise BadInput(f"--steps is between 1 and 10000, not {steps}")
    grid: dict[str, Any] = {
        "rung": split(rung or []),
        "device": split(device or []),
        "precision": split(precision or []),
        "batch": whole_numbers(batch or [], "--batch"),
        "size": sizes(size or []),
        "layout": split(layout or []),
        "optimizer": split(optimizer or []),
        "threads": whole_numbers(threads or [], "--threads"),
    }
    from tare.cases.options import make_options
    from tare.prove import prove_curves
    from tare.report.curves import curves_view
    from tare.report.terminal import make_console, skipped_view

    with make_console(stderr=True).status("") as status:
        given = {name: values for name, values in grid.items() if values}
        proof = prove_curves(workload, given, data, steps, make_options({"timeout": timeout}), status.update)
    if as_json:
        print_json(proof)
        return proof.exit_code
    console = make_console()
    console.print(curves_view(proof.curves, proof.data, proof.steps))
    console.print(skipped_view(proof.skipped))
    return proof.exit_code
