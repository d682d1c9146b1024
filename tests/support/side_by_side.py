"""Homes for test processes that run side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tare.home import VARIABLE, home_folder


@contextmanager
def own_home(folder: Path) -> Iterator[None]:
    """A home of this process's own, but for the programs built: with one home for all, executors would take turns
    at the lock that keeps two measurements apart, and nothing would be side by side."""
    (folder / "native").symlink_to(home_folder("native"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield
