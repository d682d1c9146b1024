import subprocess
import sys
from pathlib import Path

import pytest
from planted_environment import Tare, planted_environment

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

    def call(*args: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tare", *args],
            env=planted_environment(home),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return call
