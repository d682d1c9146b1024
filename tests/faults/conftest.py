from functools import partial
from pathlib import Path

import pytest
from commandline import Tare, planted_tare


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def tare(home: Path) -> Tare:
    """Runs the command line with the planted workloads and rungs."""

    return partial(planted_tare, home)
