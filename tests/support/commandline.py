"""The command line as a user runs it: a process of its own, with or without the planted workloads and rungs."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prefork import prefork

HERE = Path(__file__).parent
Done = subprocess.CompletedProcess[str]
Tare = Callable[..., Done]


def tare(home: Path, *args: str, **variables: str) -> Done:
    # A terminal of any width: what fits into 100 columns does so because tare sees to it.
    return run_tare(args, {**os.environ, "TARE_HOME": str(home), "COLUMNS": "300"} | variables)


def planted_tare(home: Path, *args: str, **variables: str) -> Done:
    return run_tare(args, planted_environment(home) | variables)


def run_tare(args: tuple[str, ...], environment: Mapping[str, str], timeout: float = 500) -> Done:
    if prefork().fits(environment):
        return prefork().run(args, environment, timeout)
    command = [sys.executable, "-m", "tare", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)


def start_tare(home: Path, *args: str, plugins: str = "planted", **options: Any) -> subprocess.Popen[str]:
    """With the planted workloads, and not waited for."""
    command = [sys.executable, "-m", "tare", *args]
    pipe, environment = subprocess.PIPE, planted_environment(home) | {"TARE_PLUGINS": plugins}
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, **options)


def wait_until(condition: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def planted_environment(home: Path) -> dict[str, str]:
    """The environment in which tare finds the planted workloads and rungs."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "TARE_HOME": str(home),
        "TARE_PLUGINS": "planted",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
