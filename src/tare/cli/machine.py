"""tare doctor, build and peaks: is this machine fit to measure on, and what can it do?"""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from tare.cli.options import JsonOption, print_result
from tare.errors import TareError


def doctor(as_json: JsonOption = False) -> None:
    """Check whether this machine is fit to measure on.

    Reports devices, versions, rungs and sources of noise, and what to do about them.
    """
    from tare.commands.machine import survey
    from tare.measure.health import examine
    from tare.report.lists import describe_rungs
    from tare.report.machine import health_view

    probed = survey()
    checks = examine(probed.gpus)
    machine = {"devices": probed.devices, "environment": probed.environment, "rungs": describe_rungs(probed)}
    print_result(as_json, {**machine, "checks": checks}, lambda: health_view(probed, checks))


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
    document = {"folders": folders, "not_built": reasons, "seconds": time.monotonic() - started}
    lines = [f"{name}: {folders.get(name) or f'not built: {reasons[name]}'}" for name in COMPONENTS]
    print_result(as_json, document, lambda: "\n".join(lines), wide=True)
    if failed:
        raise typer.Exit(1)


def peaks(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Fresh processes per peak.", min=1, max=100)] = 3,
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: torch's own number).", min=1)] = None,
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Keep them, on a quiet machine.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Measure the peaks of this machine, for explain.

    Matrix rate, bandwidth, launch, and copies between host and device: the best of many on a quiet machine. A busy
    machine is refused unless --no-keep.
    """
    from tare.commands.machine import find_peaks
    from tare.report.machine import peaks_view

    measured = find_peaks(device, rounds, threads, keep, show_progress=not as_json)
    print_result(as_json, measured, lambda: peaks_view(measured))
