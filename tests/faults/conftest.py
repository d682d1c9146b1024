from functools import partial
from pathlib import Path

import pytest
from commandline import Tare, planted_tare

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.alone)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def tare(home: Path) -> Tare:
    """Runs the command line with the planted workloads and rungs."""

    return partial(planted_tare, home)
