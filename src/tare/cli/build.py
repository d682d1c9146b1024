"""tare build: compile the native rungs now instead of on their first use."""

import time

import typer

from tare.cli.options import JsonOption, print_json
from tare.errors import TareError


def build(as_json: JsonOption = False) -> None:
    """Compile the C++ rungs into the cache (a minute or two; afterwards nothing is left to do)."""
    from tare.native.build import build_key, executable, missing_tools
    from tare.report.terminal import make_console

    lacking = missing_tools()
    if lacking:
        raise TareError(f"cannot build the native rungs: {lacking} is missing (Debian: apt-get install g++ cmake)")
    began = time.monotonic()
    with make_console(stderr=True).status("building the native rungs"):
        folder = executable("tare-libtorch").parent
    if as_json:
        print_json({"key": build_key(), "folder": str(folder), "seconds": time.monotonic() - began})
    else:
        typer.echo(f"native rungs in {folder}")
