"""tare build: compile the C++ rungs now instead of on their first use."""

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
    from tare.report.progress import Progress
    from tare.rungs.native.build import COMPONENTS, build_all, missing_tools
    from tare.system.processes import interruptible

    missing = {component: missing_tools(component) for component in COMPONENTS}
    if missing["libtorch"]:
        remedy = "Debian: apt-get install g++ cmake"
        raise TareError(f"cannot build the C++ rungs: {missing['libtorch']} is missing ({remedy})")
    started = time.monotonic()
    with Progress(shown=not as_json) as progress, interruptible():
        progress.stage_changed("building the C++ rungs: a minute or two")
        results = build_all([name for name in COMPONENTS if not missing[name]], os.cpu_count() or 1)
    folders = {name: str(result) for name, result in results.items() if isinstance(result, Path)}
    failed = {name: str(result) for name, result in results.items() if isinstance(result, TareError)}
    reasons = {name: f"{tools} is missing" for name, tools in missing.items() if tools} | failed
    if as_json:
        print_json({"folders": folders, "not_built": reasons, "seconds": time.monotonic() - started})
    else:
        for name in COMPONENTS:
            typer.echo(f"{name}: {folders.get(name) or f'not built: {reasons[name]}'}")
    if failed:
        raise typer.Exit(1)
