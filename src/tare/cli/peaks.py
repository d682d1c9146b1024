"""tare peaks: what this machine can do at most."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, print_json


def peaks(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Fresh processes per peak.", min=1, max=100)] = 3,
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: torch's own number).", min=1)] = None,
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Keep them, on a quiet machine.")] = True,
    as_json: JsonOption = False,
) -> int:
    """Measure the peaks of this machine, for explain.

    Matrix rate, bandwidth, launch, and copies between host and device: the best of many on a quiet machine. A busy
    machine is refused unless --no-keep.
    """
    from tare.commands.peaks import find_peaks
    from tare.report.peaks import peaks_view
    from tare.report.terminal import make_console

    measured = find_peaks(device, rounds, threads, keep, show_progress=not as_json)
    if as_json:
        print_json(measured)
    else:
        make_console().print(peaks_view(measured))
    return 0
