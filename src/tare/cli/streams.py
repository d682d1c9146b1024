"""Standard output and error as every verb may rely on them."""

import os
import sys


def prepare_streams() -> None:
    """Makes both be there, and have something for every character.

    One that the caller closed (`>&-`) becomes the null device: else the next file that is opened, such as the
    store, would get its number, and with it all that is printed. What the encoding lacks is printed as `?`: a
    table with a few of them can be read.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, so this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="replace")


def silence(number: int) -> None:
    """What is still to be written there goes nowhere, so that the end of the process does not fail on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
