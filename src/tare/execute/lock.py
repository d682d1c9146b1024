"""One measurement at a time on a machine: two tares take turns, round by round, and do not disturb each other."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.05


@contextlib.contextmanager
def machine_lock(folder: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Held during a round. The kernel drops it when its holder dies, however that happens."""
    with (folder / "measuring.lock").open("w") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    on_wait()
                    told = True
                time.sleep(POLL_S)
        yield
