"""The fork server prints nothing where our own output goes."""

import os
from pathlib import Path

import pytest

from tare.execute.launch import ForkLauncher


def test_what_the_servers_imports_print_goes_to_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noisy.py").write_text("print('from a preload', flush=True)")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    launcher = ForkLauncher(("noisy",), variables={"PYTHONPATH": paths})
    launcher.renew()
    launcher.settle()
    launcher.close()
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == "from a preload\n"
