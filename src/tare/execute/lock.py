"""One measurement at a time on a machine: two tares take turns, round by round, and do not disturb each other."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tare.errors import BadInput
from tare.home import VARIABLE
from tare.locks import open_lock, try_lock

POLL_S = 0.05
# Names the file that all tares of a machine lock; empty, it is only those of one TARE_HOME that take turns.
PLACE = "TARE_LOCK"
# Not Python's folder for temporary files: each user may set that one.
EVERYBODY = "/tmp/tare-measuring.lock"


@contextlib.contextmanager
def machine_lock(folder: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Held during a round: the machine's lock, and that of the data folder for those who share only this (tares in
    containers). Everybody takes them in this order."""
    with contextlib.ExitStack() as stack:
        told = False
        for descriptor in _open(folder):
            stack.callback(os.close, descriptor)
            while try_lock(descriptor) is False:
                if not told:
                    on_wait()
                    told = True
                time.sleep(POLL_S)
        yield


def _open(folder: Path) -> Iterator[int]:
    place = os.environ.get(PLACE, EVERYBODY)
    if place:
        # Where it cannot be had (no such folder, a file that only its owner may read) there is the other.
        with contextlib.suppress(OSError):
            yield open_lock(Path(place), 0o666)
    own = folder / "measuring.lock"
    try:
        yield open_lock(own)
    except OSError as error:
        raise BadInput(f"cannot lock {own} ({error.strerror}); set {VARIABLE}") from None
