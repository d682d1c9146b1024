"""Standard streams that every verb can rely on."""

import codecs
import os
import sys

from tare.system.text import to_ascii


def prepare_streams() -> None:
    """Opens the standard streams that are closed, and gives output something for every character.

    A stream that the caller closed (`>&-`) becomes the null device. Otherwise the next file opened, such as the
    store, would get its descriptor, and everything printed would be written into it. A character that the encoding
    lacks is printed as its ASCII equivalent (`us`, `+-`) or as `?`.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free descriptor, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    codecs.register_error("ascii_equivalent", _ascii_equivalent)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="ascii_equivalent")


def _ascii_equivalent(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return to_ascii(error.object[error.start : error.end]), error.end


def silence(number: int) -> None:
    """Discards what is still to be written there, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
