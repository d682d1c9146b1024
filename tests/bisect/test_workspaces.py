"""Candidates' workspaces: an environment for each build, and the running tare in each of them."""

import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from candidates import repository, wheel

import tare
from tare.bisect.command import CandidateFailed, CommandResult, run_command
from tare.bisect.spec import make_spec
from tare.bisect.tare_package import installable_tare, make_wheel, missing_requirements
from tare.bisect.workspaces import Workspace, Workspaces

# As an installer does: a module into the packages of the interpreter that runs it.
INSTALL = "import sysconfig, shutil; shutil.copy('cost', sysconfig.get_paths()['purelib'] + '/plantedcost.py')"
KEY = "mlp/eager/infer/cpu/fp32/batch=8/feed=device,layout=contiguous"
READ = "import numpy, tare, plantedcost, slowpoke; print(plantedcost.COST, tare.__file__, slowpoke.__file__)"


def read(workspace: Workspace) -> list[str]:
    return run_command([workspace.python, "-c", READ], workspace.folder, workspace.environment, 120).output.split()


def test_a_build_installs_into_its_commits_environment_alone(tmp_path: Path) -> None:
    """A script that copies a module into the packages of its interpreter, and the `pip` on the path."""
    wheel(tmp_path, "1.1", 3.5)
    hashes = repository(tmp_path / "repo", ["COST = 1", "COST = 2"])
    pip = f"pip install --quiet --no-index --disable-pip-version-check --find-links {tmp_path} slowpoke"
    build = [f'python -c "{INSTALL}"', pip]
    spec = make_spec(command="true", repo=tmp_path / "repo", good=hashes[0], bad="main", build=build)
    workspaces = Workspaces(spec, tmp_path / "workspaces")
    first, second = (read(workspace) for workspace in [workspaces.get(0), workspaces.get(1)])
    assert [first[0], second[0]] == ["1", "2"], "both built, then both read"
    assert Path(first[1]).samefile(tare.__file__), "the packages of the interpreter are visible too"
    assert str(tmp_path / "workspaces") in first[2], "pip is the environment's own"
    here = subprocess.run([sys.executable, "-c", "import plantedcost"], capture_output=True)
    assert here.returncode == 1, "nothing was installed into the shared interpreter"


def install(archive: Path, folder: Path) -> None:
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(archive)], check=True, timeout=120)


def test_an_installed_package_is_packed_again_as_it_was(tmp_path: Path) -> None:
    wheel(tmp_path, "1.1", 3.5)
    (original,) = tmp_path.glob("*.whl")
    install(original, tmp_path / "first")
    (installed,) = distributions(path=[str(tmp_path / "first")])
    (tmp_path / "again").mkdir()
    again = make_wheel(installed, tmp_path / "again")
    assert again.name == original.name
    with zipfile.ZipFile(original) as a, zipfile.ZipFile(again) as b:
        assert sorted(b.namelist()) == sorted(a.namelist())
    install(again, tmp_path / "second")
    assert (tmp_path / "second" / "slowpoke.py").read_text() == "COST = 3.5\n"


def test_a_checkout_is_installed_from_its_folder(tmp_path: Path) -> None:
    assert (Path(installable_tare(tmp_path)) / "pyproject.toml").exists()


def test_the_running_tare_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not another one that is installed elsewhere."""
    packages = tmp_path / "lib" / "site-packages"
    wheel(tmp_path, "1.1", 3.5)
    monkeypatch.setattr(tare, "__file__", str(packages / "tare" / "__init__.py"))
    with pytest.raises(CandidateFailed, match="has no tare-bench"):
        installable_tare(tmp_path)
    install(next(tmp_path.glob("*.whl")), packages)
    monkeypatch.setattr("tare.bisect.tare_package.DISTRIBUTION", "slowpoke")
    (tmp_path / "made").mkdir()
    assert Path(installable_tare(tmp_path / "made")).name == "slowpoke-1.1-py3-none-any.whl"


def test_packages_of_a_candidate_are_not_replaced_for_tare() -> None:
    """An older torch than tare asks for is the candidate: pip would quietly put the newest in its workspace."""
    needed = missing_requirements("torch==1.0\nNumPy==1.26.0\nnvidia_ml_py==12.0\npip==24.0\n")
    names = [requirement.partition(">=")[0].lower() for requirement in needed]
    assert {"scipy", "msgspec", "sqlalchemy"} <= set(names)
    assert not {"torch", "numpy", "nvidia-ml-py"} & set(names)


def test_tare_is_installed_after_the_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def record(command: list[str], folder: Path, environment: object, timeout: float) -> CommandResult:  # noqa: ARG001
        ran.append(command)
        return CommandResult("torch==1.0\n" if "list" in command else "", 0.0)

    monkeypatch.setattr("tare.bisect.workspaces.run_command", record)
    monkeypatch.setattr("tare.bisect.workspaces.make_environment", lambda *_: None)
    install = ["pip install torch=={}"]
    spec = make_spec(case=KEY, good="1.0", bad="1.1", versions=["1.0", "1.1"], install=install)
    Workspaces(spec, tmp_path).get(0)
    candidate, _, others, itself = ran
    assert candidate[1:] == ["install", "torch==1.0"]
    assert "--constraint" in others
    assert Path(others[others.index("--constraint") + 1]).read_text() == "torch==1.0\n"
    assert not any(word.startswith("torch") for word in others)
    assert "--no-deps" in itself
    Workspaces(spec, tmp_path).get(0)
    assert len(ran) == 4, "built once"
    monkeypatch.setattr("tare.bisect.workspaces.tare_fingerprint", lambda: "another")
    Workspaces(spec, tmp_path).get(0)
    assert ran[4:] == ran[1:4], "another tare is installed, and the candidate is not built again"
