"""Files that live as long as a run: references, compilers' caches. The next run removes what a killed run left."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tare.errors import BadInput
from tare.system.home import VARIABLE, home, home_folder
from tare.system.locks import FileLock

# Locked while its run lives. A pid would not do: it means nothing in another container.
ALIVE = "alive.lock"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for this run, removed at its end."""
    root = home_folder("scratch")
    with contextlib.ExitStack() as stack:
        try:
            # Only one process removes folders at a time: a folder that is being made has no lock yet.
            with FileLock(home() / "scratch.lock") as lock:
                lock.acquire()
                _remove_abandoned(root)
                folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root))
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                stack.enter_context(FileLock(folder / ALIVE)).try_acquire()
        except OSError as error:
            raise BadInput(f"cannot write to {root} ({error.strerror}); set {VARIABLE}") from None
        yield folder


def _remove_abandoned(root: Path) -> None:
    for folder in root.iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not _is_alive(folder, int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(folder: Path, owner: int) -> bool:
    try:
        with FileLock(folder / ALIVE, create=False) as lock:
            acquired = lock.try_acquire()
    except FileNotFoundError:
        acquired = None
    except OSError:
        return True
    return bool(psutil.pid_exists(owner)) if acquired is None else not acquired
