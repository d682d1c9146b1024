"""The environment in which tare finds the planted workloads and rungs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

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
