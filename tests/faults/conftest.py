import subprocess
import sys
from pathlib import Path

import pytest
from planted_environment import Tare, planted_environment


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
