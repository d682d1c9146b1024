"""The wheel builds, installs into an empty environment, and works there."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "-o", str(folder), str(ROOT)],
                   check=True, capture_output=True, timeout=600)  # fmt: skip
    return next(folder.glob("tare_bench-*.whl"))


def test_it_holds_the_package_its_types_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "tare/py.typed" in names
    assert "tare/cli/run.py" in names
    assert {"tare/native/CMakeLists.txt", "tare/native/worker/worker.hpp"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


def test_it_works_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    """An empty environment gets the wheel alone; its dependencies (gigabytes) come from this environment by path,
    but not tare, which must be the wheel's."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)],
                   check=True, timeout=300)  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TARE_HOME": str(tmp_path / "home"), "PYTHONPATH": sysconfig.get_paths()["purelib"]}
    where = subprocess.run([python, "-c", "import tare; print(tare.__file__)"], env=environment, check=True,
                           capture_output=True, text=True, cwd=tmp_path).stdout  # fmt: skip
    assert str(tmp_path) in where
    command = [str(tmp_path / "env" / "bin" / "tare"), "run", "mlp", "--rung", "eager", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--quick", "--parity", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"][0]["parity"]["status"] == "same"
