"""tare build: compile the native rungs now instead of on their first use."""

import os
import time

import typer

from tare.cli.options import JsonOption, print_json
from tare.errors import TareError


def build(as_json: JsonOption = False) -> None:
    """Compile the C++ rungs into the cache (a minute or two; afterwards nothing is left to do)."""
    from tare.native.build import COMPONENTS, build_all, missing_tools
    from tare.report.terminal import make_console

    lacking = {component: missing_tools(component) for component in COMPONENTS}
    if lacking["torch"]:
        remedy = "Debian: apt-get install g++ cmake"
        raise TareError(f"cannot build the native rungs: {lacking['torch']} is missing ({remedy})")
    began = time.monotonic()
    possible = [component for component in COMPONENTS if not lacking[component]]
    with make_console(stderr=True).status("building the native rungs"):
        built = build_all(possible, os.cpu_count() or 1)
    folders = {component: str(built[component]) if component in built else None for component in COMPONENTS}
    if as_json:
        print_json({"folders": folders, "seconds": time.monotonic() - began})
        return
    for component, folder in folders.items():
        typer.echo(f"{component}: {folder or f'not built: {lacking[component]} is missing'}")
