import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
Tare = Callable[..., subprocess.CompletedProcess[str]]


def planted_environment(home: Path) -> dict[str, str]:
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "TARE_HOME": str(home),
        "TARE_PLUGINS": "planted",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


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
