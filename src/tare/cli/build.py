"""tare build: compile the native rungs now instead of on their first use."""

import os
import time
from pathlib import Path

import typer

from tare.cli.options import JsonOption, print_json
from tare.errors import TareError


def build(as_json: JsonOption = False) -> None:
    """Compile the C++ rungs now instead of on their first use.

    It takes a minute or two. The results are cached.
    """
    from tare.report.terminal import make_console
    from tare.rungs.native.build import COMPONENTS, build_all, missing_tools
    from tare.system.processes import interruptible

    lacking = {component: missing_tools(component) for component in COMPONENTS}
    if lacking["torch"]:
        remedy = "Debian: apt-get install g++ cmake"
        raise TareError(f"cannot build the native rungs: {lacking['torch']} is missing ({remedy})")
    began = time.monotonic()
    possible = [component for component in COMPONENTS if not lacking[component]]
    with make_console(stderr=True).status("building the native rungs"), interruptible():
        built = build_all(possible, os.cpu_count() or 1)
    folders = {component: str(made) for component, made in built.items() if isinstance(made, Path)}
    failed = {component: str(made) for component, made in built.items() if isinstance(made, TareError)}
    reasons = {component: f"{tools} is missing" for component, tools in lacking.items() if tools} | failed
    if as_json:
        print_json({"folders": folders, "not_built": reasons, "seconds": time.monotonic() - began})
    else:
        for component in COMPONENTS:
            typer.echo(f"{component}: {folders.get(component) or f'not built: {reasons[component]}'}")
    if failed:
        raise typer.Exit(1)
