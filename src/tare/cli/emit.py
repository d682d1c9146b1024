"""tare emit: a network's step as C++ that a person can read."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import (
    JsonOption,
    grid_options,
    make_table,
    option_groups,
    print_result,
    read_targets,
    target_argument,
)
from tare.errors import BadInput

# What a step has besides its rung, which is the vendor's.
FIELDS = "mode device precision batch size smoke layout optimizer threads input inputs loss"


def _grid() -> dict[str, Any]:
    options = grid_options("", FIELDS)
    del options["rung"]
    return options


@option_groups(grid=_grid())
def emit(
    workload: Annotated[str, target_argument("WORKLOAD")],
    grid: dict[str, Any],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that holds something else.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Write a network's step as C++: a CMake project.

    One function for each layer, its kernels, weights, and a main that checks and times it. On a CPU.
    """
    from tare.commands.emit import emit_project
    from tare.report.terminal import make_console
    from tare.system.variables import shown_arguments
    from tare.workloads.commands import is_command

    if is_command(workload):
        raise BadInput("tare emit takes a workload, not a command")
    if workload.endswith(".toml"):
        raise BadInput(f"tare emit takes one workload and its options, not a plan ({workload})")
    table = {"device": ["cpu"], "precision": ["fp32"], **make_table(grid)}
    for name, valid in (("device", "cpu"), ("precision", "fp32")):
        if others := [value for value in table[name] if value != valid]:
            raise BadInput(
                f"tare emit writes source for {valid} only so far, not for '{others[0]}' (valid: {valid})"
            )
    plan = read_targets([workload], {**table, "rung": ["vendor"]})
    command = shlex.join(["tare", *shown_arguments(sys.argv[1:])])
    with make_console(stderr=True).status("") as status:
        project = emit_project(plan, output, force, command, status.update)
    print_result(as_json, project, project.view)
    return 0
