"""The wheel builds, installs into an empty environment, and works there."""

import ast
import itertools
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tare.commands.environments import RECIPES

ROOT = Path(__file__).parents[1]
# What torch and TensorFlow bring.
BROUGHT = {"triton", "sympy", "keras"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "-o", str(folder), str(ROOT)],
                   check=True, capture_output=True, timeout=600)  # fmt: skip
    return next(folder.glob("tare_bench-*.whl"))


def test_it_holds_the_package_its_types_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "tare/py.typed" in names
    assert "tare/cli/measure.py" in names
    data = {"tare/rungs/CMakeLists.txt", "tare/rungs/native/worker/worker.hpp", "tare/studies/lstm.toml"}
    assert data <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


@pytest.mark.full
def test_it_works_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    """An empty environment gets the wheel alone; its dependencies (gigabytes) come from this environment by path,
    but not tare, which must be the wheel's."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    # With the pip that is here: to put one into the environment takes longer than all the rest.
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, timeout=300)
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
    built = subprocess.run(
        [python, "-c", "from tare.rungs.native.build import executable; print(executable('tare-descend'))"],
        env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert Path(built.stdout.strip()).is_file(), "the sources that the wheel carries build"


def test_every_import_is_of_a_package_that_the_project_names() -> None:
    """What the environment of the tests has by chance, a user's has not. `tare env create` brings the rest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    wanted += itertools.chain(*RECIPES.values())
    named = {canonicalize_name(Requirement(text).name) for text in wanted}
    providers = packages_distributions()
    for path in (ROOT / "src").rglob("*.py"):
        for module in imported(ast.parse(path.read_text())) - {"tare", *BROUGHT, *sys.stdlib_module_names}:
            # A package that is not installed here is known by the name of its module.
            found = {canonicalize_name(name) for name in providers.get(module, [module])}
            assert found & named, f"{path.relative_to(ROOT)} imports {module}, of {found}"


def imported(tree: ast.AST) -> set[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module)
    return {name.partition(".")[0] for name in names}
