"""tare peaks: what this machine can do at most."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, print_json


def peaks(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Fresh processes per peak.", min=1, max=100)] = 2,
    as_json: JsonOption = False,
) -> int:
    """Measure the peaks of this machine, for explain.

    Matrix rate, bandwidth, launch, and copies between host and device.
    """
    from tare.commands.peaks import find_peaks
    from tare.report.peaks import peaks_view
    from tare.report.terminal import make_console

    found = find_peaks(device, rounds, show_progress=not as_json)
    if as_json:
        print_json(found)
    else:
        make_console().print(peaks_view(found))
    return 0
