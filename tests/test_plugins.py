"""Plug-ins that print while they are imported: no word of it gets into our output."""

import json
import os
from pathlib import Path

import pytest
from commandline import tare
from plugin import install, run_beside

NOISY = """
import ctypes, os, sys
print("from python")
os.write(1, b"from a descriptor\\n")
ctypes.CDLL(None).puts(b"from C")
"""
WORDS = ("from python", "from a descriptor", "from C")


def test_only_what_comes_before_and_behind_is_printed(tmp_path: Path) -> None:
    install(tmp_path, "noisy", NOISY, "tare.workloads")
    code = "print('before'); from tare.workloads import all_workloads; all_workloads(); print('behind')"
    assert run_beside(tmp_path, code) == "before\nbehind\n"


@pytest.mark.parametrize(
    "args",
    [("list", "workloads", "mlp"), ("run", "mlp", "--quick", "--rung", "eager"), ("list", "rungs", "eager")],
)
def test_json_is_all_that_is_on_standard_output(tmp_path: Path, args: tuple[str, ...]) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = tare(tmp_path / "home", *args, "--json", TARE_PLUGINS="noisy", PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert all(word in done.stderr for word in WORDS)
