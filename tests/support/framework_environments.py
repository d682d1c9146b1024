"""Environments of frameworks that the tests' own interpreter does not have, made once beside it."""

import os
import subprocess
import sys
from pathlib import Path

from commandline import HERE, Done

from tare.execute.environments import interpreter
from tare.system.locks import FileLock

# `make clean` removes it with the virtual environment.
HOME = Path(sys.prefix) / "tare-tests"
# Hundreds of megabytes may have to be downloaded.
INSTALL_S = 1800
# Of 200 s of CPU time for TensorFlow; a quarter of an hour was seen on a busy machine.
TESTS_S = 3000


def environment(name: str) -> Path:
    """The folder of the environment `name`, as `tare env create` makes it."""
    HOME.mkdir(exist_ok=True)
    folder = HOME / "environments" / name
    with FileLock(HOME / f"{name}.lock") as lock:
        lock.acquire()
        if not interpreter(folder).is_file():
            command = [sys.executable, "-m", "tare", "env", "create", name]
            variables = {**os.environ, "TARE_HOME": str(HOME)}
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=INSTALL_S)
            assert done.returncode == 0, done.stderr
    return folder


def run_tests_in(name: str, file: Path) -> Done:
    """Runs a file of tests in an environment."""
    command = [str(interpreter(environment(name))), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    variables = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TESTS_S)
