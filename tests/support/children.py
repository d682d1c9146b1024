"""Python code in a process of its own, with the builders at hand."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def start(code: str, *args: object) -> "subprocess.Popen[str]":
    """`code` finds `args` in sys.argv[1:]."""
    paths = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-c", code, *(str(arg) for arg in args)]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(child: "subprocess.Popen[str]", send: str = "") -> tuple[int, str]:
    """The exit code, negative for a signal, and what it printed."""
    out, err = child.communicate(send, timeout=120)
    return child.returncode, out + err
