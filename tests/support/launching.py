"""A fork server for the tests of a module: to start one takes longer than what most of them do with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commandline import planted_environment

from tare.execute.launch import Launcher, make_launcher


@contextmanager
def planted_launcher(home: Path, **variables: str) -> Iterator[Launcher]:
    """Its workers, and this process meanwhile, know the planted workloads."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (planted_environment(home) | variables).items():
            patch.setenv(name, value)
        made = make_launcher("fork")
        yield made
        made.close()
