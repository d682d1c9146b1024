"""Files that live as long as a run: references, compilers' caches. What a killed run left behind is removed."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tare.errors import BadInput
from tare.system.home import VARIABLE, home, home_folder
from tare.system.locks import open_existing, open_lock, try_lock

# Locked while its run lives. A process's number would not do: it means nothing in another container.
ALIVE = "alive.lock"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for this run, which the next run removes if this one cannot."""
    root = home_folder("scratch")
    with contextlib.ExitStack() as stack:
        try:
            with _alone(home()):
                _sweep(root)
                folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root))
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                descriptor = open_lock(folder / ALIVE)
                stack.callback(os.close, descriptor)
                try_lock(descriptor)
        except OSError as error:
            raise BadInput(f"cannot write to {root} ({error.strerror}); set {VARIABLE}") from None
        yield folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While nobody else sweeps: a folder that is being made has no lock yet."""
    descriptor = open_lock(folder / "scratch.lock")
    try:
        # A file system without locks: then folders go by the numbers of processes.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(root: Path) -> None:
    for folder in root.iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not _alive(folder, int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(folder: Path, owner: int) -> bool:
    try:
        descriptor = open_existing(folder / ALIVE)
    except FileNotFoundError:
        # Of an older tare, which knew its folders by their process.
        return bool(psutil.pid_exists(owner))
    except OSError:
        return True
    try:
        free = try_lock(descriptor)
        return bool(psutil.pid_exists(owner)) if free is None else not free
    finally:
        os.close(descriptor)
