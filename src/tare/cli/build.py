"""tare build: compile the native rungs now instead of on their first use."""

import time

import typer

from tare.cli.options import JsonOption, print_json
from tare.errors import TareError


def build(as_json: JsonOption = False) -> None:
    """Compile the C++ rungs into the cache (a minute or two; afterwards nothing is left to do)."""
    from tare.native.build import COMPONENTS, build_folder, executable, missing_tools
    from tare.report.terminal import make_console

    lacking = missing_tools()
    if lacking:
        raise TareError(f"cannot build the native rungs: {lacking} is missing (Debian: apt-get install g++ cmake)")
    began = time.monotonic()
    with make_console(stderr=True).status("building the native rungs"):
        for component, programs in COMPONENTS.items():
            if missing_tools(component) is None:
                executable(programs[0])
    built = {c: str(build_folder(c)) if missing_tools(c) is None else None for c in COMPONENTS}
    if as_json:
        print_json({"folders": built, "seconds": time.monotonic() - began})
        return
    for component, folder in built.items():
        typer.echo(f"{component}: {folder or f'not built: {missing_tools(component)} is missing'}")
