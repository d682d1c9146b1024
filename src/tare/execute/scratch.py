"""Files that live as long as a run: references, compilers' caches. What a killed run left behind is removed."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tare.errors import BadInput
from tare.home import VARIABLE, home_folder


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for this run, named after its process so that the next run can tell whether it still lives."""
    root = home_folder("scratch")
    _sweep(root)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{psutil.Process().pid}-", dir=root))
    except OSError as error:
        raise BadInput(f"cannot write to {root} ({error.strerror}); set {VARIABLE}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(root: Path) -> None:
    for folder in root.iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
