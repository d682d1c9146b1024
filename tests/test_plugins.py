"""Plug-ins that print or fail while they are imported: nothing gets into our output, and one line says why."""

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nx / 0", "ZeroDivisionError: division by zero ({path}, line 2)"),
        ("raise SystemExit('no licence')", "SystemExit: no licence ({path}, line 1)"),
        ("def", "SyntaxError: invalid syntax (broken.py, line 1)"),
        ("import no_such_module", "No module named 'no_such_module'"),
    ],
)
def test_one_that_fails_is_one_line_that_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = tare(tmp_path / "home", "list", "workloads", TARE_PLUGINS="broken", PYTHONPATH=paths)
    message = f"tare: cannot import broken, named by TARE_PLUGINS=broken: {said.format(path=path)}\n"
    assert (done.returncode, done.stderr) == (2, message)


WORKLOAD = """
from tare.workloads import workload

@workload('resnet50', domain='vision', task='classification', source='me', batch=1)
class Mine: ...
"""
RUNG = """
from tare.rungs.registry import rung

@rung
class Mine:
    name = 'eager'
"""
RULE = """
from tare.findings.finding import rule

@rule('none')
def launch_bound(context): return []
"""


@pytest.mark.parametrize(
    ("text", "listed", "taken"),
    [
        (WORKLOAD, "workloads", "workload 'resnet50' of second is already one of tare.workloads.resnet"),
        (RUNG, "rungs", "rung 'eager' of second is already one of tare.rungs.torch.eager"),
        (RULE, "findings", "rule 'launch-bound' of second is already one of tare.findings.rules.launch_bound"),
    ],
)
def test_nothing_takes_the_name_of_another(tmp_path: Path, text: str, listed: str, taken: str) -> None:
    (tmp_path / "second.py").write_text(text)
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = tare(tmp_path / "home", "list", listed, TARE_PLUGINS="second", PYTHONPATH=paths)
    assert (done.returncode, done.stderr) == (2, f"tare: {taken}: give it another name\n")
