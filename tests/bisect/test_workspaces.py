"""Candidates' workspaces: an environment for each build, and the running tare in each of them."""

import subprocess
import sys
from pathlib import Path

import pytest
from candidates import repository, wheel

import tare
from tare.bisect.spec import make_spec
from tare.bisect.workspaces import Workspace, Workspaces, missing_requirements

# As an installer does: a module into the packages of the interpreter that runs it.
INSTALL = "import sysconfig, shutil; shutil.copy('cost', sysconfig.get_paths()['purelib'] + '/plantedcost.py')"
KEY = "mlp/eager/infer/cpu/fp32/batch=8/feed=device,layout=contiguous"
READ = "import numpy, tare, plantedcost, slowpoke; print(plantedcost.COST, tare.__file__, slowpoke.__file__)"


def read(workspace: Workspace) -> list[str]:
    return workspace.run([workspace.python, "-c", READ], 120).split()


@pytest.mark.full
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


def test_packages_of_a_candidate_are_not_replaced_for_tare() -> None:
    """An older torch than tare asks for is the candidate: pip would quietly put the newest in its workspace."""
    needed = missing_requirements("torch==1.0\nNumPy==1.26.0\nnvidia_ml_py==12.0\npip==24.0\n")
    names = [requirement.partition(">=")[0].lower() for requirement in needed]
    assert {"scipy", "msgspec", "sqlalchemy"} <= set(names)
    assert not {"torch", "numpy", "nvidia-ml-py"} & set(names)


def test_tare_is_installed_after_the_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def record(command: list[str], folder: Path, environment: object, timeout: float) -> str:  # noqa: ARG001
        ran.append(command)
        return "torch==1.0\n" if "list" in command else ""

    def make_folders(folder: Path, *_: object) -> None:
        (folder / "lib" / "python3" / "site-packages").mkdir(parents=True)

    monkeypatch.setattr("tare.bisect.workspaces.run_command", record)
    monkeypatch.setattr("tare.bisect.workspaces.make_environment", make_folders)
    install = ["pip install torch=={}"]
    spec = make_spec(case=KEY, good="1.0", bad="1.1", versions=["1.0", "1.1"], install=install)
    Workspaces(spec, tmp_path).get(0)
    candidate, _, others = ran
    assert candidate == ["pip", "install", "torch==1.0"]
    assert "--constraint" in others
    assert Path(others[others.index("--constraint") + 1]).read_text() == "torch==1.0\n"
    assert not any(word.startswith("torch") for word in others)
    (copied,) = tmp_path.rglob("site-packages/tare/__init__.py")
    assert copied.read_text() == Path(tare.__file__).read_text()
    Workspaces(spec, tmp_path).get(0)
    assert len(ran) == 3, "built once"
    monkeypatch.setattr("tare.bisect.workspaces.tare_fingerprint", lambda: "another")
    (copied.parent / "of_another_version.py").write_text("")
    Workspaces(spec, tmp_path).get(0)
    assert ran[3:] == ran[1:3], "another tare is installed, and the candidate is not built again"
    assert not (copied.parent / "of_another_version.py").exists()
