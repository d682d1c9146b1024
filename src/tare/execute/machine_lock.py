"""One measurement at a time on a machine: two tares take turns, round by round, and do not disturb each other."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tare.errors import BadInput
from tare.system.home import VARIABLE
from tare.system.locks import open_lock, try_lock

POLL_S = 0.05
# Names the file that all tares of a machine lock; empty, it is only those of one TARE_HOME that take turns.
PLACE = "TARE_LOCK"
# Not Python's folder for temporary files: each user may set that one.
EVERYBODY = "/tmp/tare-measuring.lock"


@contextlib.contextmanager
def machine_lock(folder: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Held during a round: the machine's lock, and that of the data folder for those who share only this (tares in
    containers). Everybody takes them in this order."""
    with contextlib.ExitStack() as held:
        waiting = _Waiting(on_wait)
        for door, room in _open(folder):
            # Who has just been in stands behind who waits at the door, or it would be in again at once.
            with contextlib.ExitStack() as before:
                if door is not None:
                    before.callback(os.close, door)
                held.callback(os.close, room)
                for descriptor in (door, room):
                    waiting.for_lock(descriptor)
        yield


class _Waiting:
    """Waits for locks, and tells of it once."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait: Callable[[], None] | None = on_wait

    def for_lock(self, descriptor: int | None) -> None:
        while descriptor is not None and try_lock(descriptor) is False:
            if self._on_wait is not None:
                self._on_wait()
                self._on_wait = None
            time.sleep(POLL_S)


def _open(folder: Path) -> Iterator[tuple[int | None, int]]:
    """The door and the room of each place where one waits."""
    place = os.environ.get(PLACE, EVERYBODY)
    if place:
        # Where it cannot be had (no such folder, a file that only its owner may read) there is the other.
        with contextlib.suppress(OSError):
            room = open_lock(Path(place), 0o666)
            yield _door(Path(place), 0o666), room
    own = folder / "measuring.lock"
    try:
        room = open_lock(own)
    except OSError as error:
        raise BadInput(f"cannot lock {own} ({error.strerror}); set {VARIABLE}") from None
    yield _door(own, 0o644), room


def _door(place: Path, mode: int) -> int | None:
    with contextlib.suppress(OSError):
        return open_lock(place.with_name(f"{place.name}.next"), mode)
    return None
