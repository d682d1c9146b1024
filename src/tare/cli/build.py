"""tare build: compile the native rungs now instead of on their first use."""

import time

import typer

from tare.cli.options import JsonOption, print_json
from tare.errors import TareError


def build(as_json: JsonOption = False) -> None:
    """Compile the C++ rungs into the cache (a minute or two; afterwards nothing is left to do)."""
    from tare.native.build import COMPONENTS, executable, missing_tools
    from tare.report.terminal import make_console

    lacking = {component: missing_tools(component) for component in COMPONENTS}
    if lacking["torch"]:
        remedy = "Debian: apt-get install g++ cmake"
        raise TareError(f"cannot build the native rungs: {lacking['torch']} is missing ({remedy})")
    began = time.monotonic()
    folders: dict[str, str | None] = dict.fromkeys(COMPONENTS)
    with make_console(stderr=True).status("building the native rungs"):
        for component, programs in COMPONENTS.items():
            if not lacking[component]:
                folders[component] = str(executable(programs[0]).parent)
    if as_json:
        print_json({"folders": folders, "seconds": time.monotonic() - began})
        return
    for component, folder in folders.items():
        typer.echo(f"{component}: {folder or f'not built: {lacking[component]} is missing'}")
