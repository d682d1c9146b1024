"""tare coverage: how much of torch the workloads touch."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, complete_targets, print_json


def coverage(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD | @GROUP]...", autocompletion=complete_targets, show_default="@zoo"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...: a device has operators of its own.")] = "cpu",
    as_json: JsonOption = False,
) -> int:
    """Count how much of torch's API the workloads call.

    Runs them under interception, at smoke size, in eager, for inference and training.
    """
    from tare.commands.coverage import cover_workloads
    from tare.report.coverage import coverage_view
    from tare.report.terminal import make_console

    found = cover_workloads(targets or ["@zoo"], device, show_progress=not as_json)
    if as_json:
        print_json(found)
    else:
        make_console().print(coverage_view(found))
    return 1 if found.failed else 0
