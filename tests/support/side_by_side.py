"""Homes for test processes that run side by side."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tare.system.home import VARIABLE, home_folder


@contextmanager
def own_home(factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of this process's own, but for the programs built: with one home for all, executors would take turns
    at the lock that keeps two measurements apart, and nothing would be side by side. The usual home where this is
    the only process."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    folder = factory.mktemp("home")
    (folder / "native").symlink_to(home_folder("native"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield
