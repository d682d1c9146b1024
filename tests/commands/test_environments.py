"""Environments: named, found by name and version, and measured beside the running interpreter in one ladder."""

import json
import sys
from pathlib import Path

import pytest
from commandline import planted_tare, tare

from tare.bisect.workspaces import make_layered_environment
from tare.commands.environments import create, packages_of
from tare.errors import BadInput, TareError
from tare.execute import environments
from tare.execute.environments import find_environment, installed, missing_environment


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    monkeypatch.setattr(environments, "_named", {})
    return tmp_path


def plant(home: Path, name: str) -> Path:
    """A folder that looks like an environment."""
    folder = home / "environments" / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    return folder


def test_a_version_names_the_environment_of_its_distribution(home: Path) -> None:
    torch, jax = plant(home, "torch==2.9.1"), plant(home, "jax==0.9.0")
    assert find_environment("eager@2.9.1") == find_environment("compile:reduce-overhead@2.9.1") == torch
    assert find_environment("jax:eager@0.9.0") == jax
    assert find_environment("eager@0.9.0") is None


def test_the_running_version_needs_no_environment() -> None:
    name = f"eager@{installed('torch')}"
    assert find_environment(name) is None
    assert missing_environment(name, str(installed("torch"))) is None


def test_a_missing_environment_names_its_command() -> None:
    missing = missing_environment("eager@1.0.0", "1.0.0")
    assert missing is not None
    assert missing.remedy == "tare env create torch==1.0.0"


def test_a_framework_that_is_installed_is_not_taken_from_its_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plant(home, "jax")
    assert find_environment("jax") is None
    monkeypatch.setattr(environments, "installed", lambda name: None if name == "jax" else "1")
    assert find_environment("jax") == folder
    assert find_environment("eager") is None


def test_a_named_environment_wins(home: Path, tmp_path: Path) -> None:
    plant(home, "mine")
    other = plant(tmp_path / "elsewhere", "mine")
    environments.name_environment(f"mine={other}")
    assert find_environment("eager@mine") == other
    versioned = plant(tmp_path / "elsewhere", "torch==2.9.1")
    environments.name_environment(f"torch==2.9.1={versioned}")
    assert find_environment("eager@2.9.1") == versioned


@pytest.mark.parametrize("text", ["mine", "=path", "mine=", "mine=/no/such/folder"])
def test_a_name_without_an_interpreter_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--env"):
        environments.name_environment(text)


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("torch==2.9.1", ("torch==2.9.1",)),
        ("jax==0.9.0", ("jax==0.9.0",)),
        ("onnxruntime==1.23.0", ("onnxruntime==1.23.0", "onnx==1.23.2", "onnxscript==0.7.2")),
    ],
)
def test_what_a_version_installs(name: str, packages: tuple[str, ...]) -> None:
    assert packages_of(name) == packages


@pytest.mark.parametrize("name", ["torch", "keras", "jax==", "jax== --index-url", "../jax"])
def test_what_is_no_environment_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        packages_of(name)


@pytest.mark.full
def test_one_that_cannot_be_installed_leaves_nothing(home: Path) -> None:
    with pytest.raises(TareError, match=r"cannot make the environment jax==999\.0"):
        create("jax==999.0")
    assert list((home / "environments").glob("[!.]*")) == []
    assert not (home / "environments" / ".jax==999.0").exists()


def test_they_are_listed_and_removed(home: Path) -> None:
    plant(home, "jax")
    assert [each["name"] for each in json.loads(tare(home, "env", "list", "--json").stdout)] == ["jax"]
    assert tare(home, "env", "remove", "jax").returncode == 0
    again = tare(home, "env", "remove", "jax")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


def plant_versions(home: Path, **versions: str) -> None:
    """Environments with versions of the planted framework: v1_0 is version 1.0."""
    for name, source in versions.items():
        folder = home / "environments" / f"planted-framework=={name.removeprefix('v').replace('_', '.')}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        make_layered_environment(folder, sys.executable, 300)
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "planted_framework.py").write_text(source)


@pytest.mark.full
def test_the_version_that_uses_more_operators_is_found_in_environments(tmp_path: Path) -> None:
    home = tmp_path / "home"
    plant_versions(home, v1_0="FACTOR = 1.0", v1_1="FACTOR = 1.0", v2_0="FACTOR = 1.0; EXTRA = 3")
    versions = ("--good", "1.0", "--bad", "2.0", "--versions", "1.0,1.1,2.0")
    run = ("bisect", "mlp", "--device", "cpu", "--rung", "versioned@{}", "--metric", "operators", "--json")
    done = planted_tare(home, *run, *versions, "--budget", "0.2", TARE_PLUGINS="versioned_rung")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [culprit["culprit"] for culprit in document["culprits"]] == ["2.0"]


@pytest.mark.full
def test_a_check_of_a_rung_in_an_environment_sets_the_variables_of_its_baseline(tmp_path: Path) -> None:
    """Without them both sides would be the same."""
    home = tmp_path / "home"
    plant_versions(home, v1_0="import os\nFACTOR = 1.0\nEXTRA = int(os.environ.get('PLANTED_EXTRA', '3'))")
    run = ("check", "mlp", "--device", "cpu", "--rung", "versioned@1.0", "--metric", "operators", "--rounds", "2")
    options = ("--baseline-env", "PLANTED_EXTRA=0", "--budget", "0.2", "--no-diff", "--json")
    done = planted_tare(home, *run, *options, TARE_PLUGINS="versioned_rung")
    assert done.returncode == 1, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    (change,) = [change for change in case["changes"] if change["metric"] == "operators"]
    assert change["b"] - change["a"] == 3


def test_a_python_may_be_an_environment(home: Path) -> None:
    folder = plant(home, "torch==2.9.1")
    assert environments.find_interpreter("torch==2.9.1", "--python") == str(folder / "bin" / "python")
    assert environments.find_interpreter(sys.executable, "--python") == sys.executable
    with pytest.raises(BadInput, match=r"--python: there is no interpreter.*tare env create torch==1\.0"):
        environments.find_interpreter("torch==1.0", "--python")
    with pytest.raises(BadInput, match="tare env list"):
        environments.find_interpreter("nothing", "--baseline-python")


@pytest.mark.parametrize("more", [("--repo", "."), ("--install", "pip install x=={}")])
def test_a_versioned_rung_takes_versions_alone(more: tuple[str, str], home: Path) -> None:
    options = ("--good", "1", "--bad", "2", "--versions", "1,2")
    done = tare(home, "bisect", "mlp", "--rung", "eager@{}", *options, *more)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.full
def test_versions_are_measured_in_one_ladder_and_a_planted_difference_is_found(tmp_path: Path) -> None:
    options = []
    for version, factor in (("1.0", 1.0), ("2.0", 1.01)):
        folder = tmp_path / version
        make_layered_environment(folder, sys.executable, 300)
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "planted_framework.py").write_text(f"FACTOR = {factor}\n")
        options += ["--env", f"planted-framework=={version}={folder}"]
    rungs = "eager,versioned,versioned@1.0,versioned@2.0,versioned@3.0,libtorch:script@planted"
    options += ["--env", f"planted={folder}"]
    run = ("run", "mlp", "--device", "cpu", "--batch", "8", "--quick", "--json", "--rung", rungs, *options)
    done = planted_tare(tmp_path / "home", *run, TARE_PLUGINS="versioned_rung")
    document = json.loads(done.stdout)
    (ladder,) = document["ladders"]
    parity = {row["rung"]: row["parity"] for row in ladder["rows"]}
    assert parity == {"eager": "same", "versioned@1.0": "same", "versioned@2.0": "different"}
    assert "tare env create planted-framework==3.0" in str(document["skipped"])
    assert "built for the running environment alone" in str(document["skipped"])
    assert "the planted framework is not installed" in str(document["skipped"])
