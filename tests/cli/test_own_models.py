"""tare run with the user's own models, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from own_models import write_project

from tare.system.home import home_folder

QUICK = ("--quick", "--json")
# On a busy machine a process may wait for minutes; nothing here depends on how long.
PATIENCE_S = 1500
pytestmark = pytest.mark.timeout(PATIENCE_S + 100)


def tare(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """In the user's folder."""
    environment = {**os.environ, "TARE_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "tare", *args]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)


def records(folder: Path, *args: str, how: tuple[str, ...] = QUICK) -> list[dict[str, Any]]:
    done = tare(folder, "run", *args, *how)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return list(document["records"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path)
    return tmp_path


def test_a_whole_step_is_measured_and_compared(project: Path) -> None:
    (record,) = records(project, "nets.py::train_step", "--rung", "eager", "--parity", "--device", "cpu")
    case = record["case"]
    assert (case["workload"], case["mode"], case["optimizer"]) == ("nets.py::train_step", "train", "own")
    assert record["failure"] is None
    assert record["parity"]["status"] == "same", record["parity"]
    # A loss for each batch and the last of three, a gradient and an update of each of four parameters.
    assert record["parity"]["compared"] == 4 + 8
    assert len(case["source"]) == 8


def test_bad_input_is_one_line_and_exit_code_2(project: Path) -> None:
    done = tare(project, "run", "nets.py::Needs")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("tare: Needs needs arguments (width)")
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_model_that_hangs_when_it_is_built_ends_with_the_timeout(project: Path) -> None:
    (project / "hangs.py").write_text("import time\n\n\ndef make():\n    time.sleep(1000)\n")
    done = tare(project, "run", "hangs.py::make", "--input", "2x3", "--timeout", "5")
    assert done.returncode == 2
    assert "hangs.py::make cannot be used: timeout" in done.stderr.splitlines()[-1]


@pytest.mark.full
def test_a_model_with_a_loss_trains_on_every_python_rung(project: Path) -> None:
    (project / "home").mkdir()
    (project / "home" / "native").symlink_to(home_folder("native"))
    options = ("--inputs", "nets.py::labelled", "--loss", "nets.py::cross_entropy", "--mode", "train")
    rungs = ("eager", "torchscript", "compile", "libtorch:script", "vendor")
    # C++ is built where it is not yet, unlike with --quick.
    how = ("--rounds", "1", "--budget", "1", "--json")
    found = records(project, "nets.py::make_net", *options, "--rung", ",".join(rungs), "--batch", "4", how=how)
    assert {record["case"]["rung"]: record["parity"]["status"] for record in found} == dict.fromkeys(rungs, "same")
    assert {record["case"]["inputs"] for record in found} == {"nets.py::labelled"}


@pytest.mark.full
def test_records_of_an_edited_model_are_not_mixed(project: Path) -> None:
    arguments = ("nets.py::Net", "--rung", "eager", "--recorded", "--device", "cpu")
    (first,) = records(project, *arguments)
    (again,) = records(project, *arguments)
    assert first["id"] == again["id"]
    write_project(project, width=16)
    (edited,) = records(project, *arguments)
    assert edited["id"] != first["id"]
    assert edited["case"]["source"] != first["case"]["source"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "options", "size"),
    [
        ("hf:bert-base-uncased", ("--size", "length=16", "--batch", "1"), 16),
        ("timm:resnet18d", ("--input", "1x3x64x64"), None),
        ("torchvision:shufflenet_v2_x0_5", ("--input", "1x3x64x64"), None),
    ],
)
def test_models_of_packages(project: Path, target: str, options: tuple[str, ...], size: int | None) -> None:
    found = records(project, target, *options, "--rung", "eager,torchscript", "--parity", "--device", "cpu")
    assert [record["parity"]["status"] for record in found] == ["same", "same"], [r["parity"] for r in found]
    assert found[0]["case"]["sizes"].get("length") == size


@pytest.mark.full
def test_an_exported_program(project: Path) -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    torch.export.save(torch.export.export(model, (torch.randn(3, 4),)), str(project / "program.pt2"))
    found = records(project, "program.pt2", "--rung", "eager,torchscript", "--parity", "--device", "cpu")
    assert [record["parity"]["status"] for record in found] == ["same", "same"], [r["parity"] for r in found]


@pytest.mark.full
def test_a_slower_edit_is_found_against_the_files_of_the_baseline(project: Path) -> None:
    base = project / "base"
    base.mkdir()
    write_project(base)
    git(base, "init", "-q", "-b", "main")
    git(base, "add", "-A")
    git(base, "commit", "-q", "-m", "Before")
    text = (project / "nets.py").read_text()
    # Far longer than any disturbance of a busy machine.
    slower = "__import__('time').sleep(0.1)\n        return self.head("
    (project / "nets.py").write_text(text.replace("return self.head(", slower))
    how = ("--rung", "eager", "--device", "cpu", "--budget", "2", "--metric", "gross", "--no-diff", "--json")
    done = tare(project, "check", "nets.py::Net", "--baseline-dir", "base", *how, "--confirm", "8")
    assert done.returncode == 1, done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    (change,) = case["changes"]
    assert (change["verdict"], change["stage"]) == ("slower", "confirmed"), change
    assert change["regression"]
    # Each side is kept under its own code and commit.
    assert len(set(case["sources"])) == 2
    found = {each["id"]: each for each in json.loads(tare(project, "list", "records", "--json").stdout)}
    kept = [found[record] for record in case["records"]]
    assert [each["case"].rpartition("source=")[2] for each in kept] == case["sources"]
    assert [each["project"] and "main" in str(each["project"]) for each in kept] == [True, None]


def git(folder: Path, *args: str) -> str:
    identity = ("-c", "user.name=A User", "-c", "user.email=user@example.org")
    command = ["git", "-C", str(folder), *identity, *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.full
def test_the_commit_that_added_operators_to_a_model_is_found(tmp_path: Path) -> None:
    """By a count, which a few runs decide; times are bisected in tests/bisect."""
    project = tmp_path / "repository" / "models"
    project.mkdir(parents=True)
    write_project(project)
    git(project.parent, "init", "-q")
    commits = []
    for number in range(6):
        if number == 4:
            text = (project / "nets.py").read_text()
            more = text.replace("return self.head(", "x = x * 2\n        return self.head(")
            (project / "nets.py").write_text(more)
        (project / "notes.txt").write_text(str(number))
        git(project.parent, "add", "-A")
        git(project.parent, "commit", "-q", "-m", f"Change {number}")
        commits.append(git(project.parent, "rev-parse", "HEAD"))
    ends = ("--repo", "..", "--good", commits[0], "--bad", commits[-1], "--budget", "0.5", "--json")
    done = tare(project, "bisect", "nets.py::Net", "--device", "cpu", "--metric", "operators", *ends)
    assert done.returncode == 0, done.stderr
    (culprit,) = json.loads(done.stdout)["culprits"]
    assert (culprit["culprit"], culprit["parent"]) == (commits[4], commits[3])


@pytest.mark.full
def test_declared_intent_is_shown(project: Path) -> None:
    how = ("--rounds", "1", "--budget", "1", "--device", "cpu")
    done = tare(project, "run", "nets.py::Declared", "--rung", "eager,torchscript", *how)
    assert done.returncode == 0, done.stderr
    assert "declared off: it rounds at random" in " ".join(done.stdout.split())


@pytest.mark.full
def test_a_model_in_a_plan(project: Path) -> None:
    plan = project / "plan.toml"
    plan.write_text(
        '[[model]]\ntarget = "nets.py::Net"\ninput = "2x3x9x9"\n'
        '[[grid]]\nworkload = "nets.py::Net"\nrung = "eager"\ndevice = "cpu"\n'
    )
    (record,) = records(project, "plan.toml")
    assert record["case"]["inputs"] == "Nx3x9x9"
    assert record["case"]["batch"] == 2


@pytest.mark.full
@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("print('hello from forward')", None),
        ("__import__('os').chdir('/')", None),
        ("__import__('os').fork() or __import__('os')._exit(0)", None),
        ("__import__('os').kill(__import__('os').getpid(), 11) if x.shape[0] == 3 else None", "signal"),
    ],
)
def test_a_model_that_prints_forks_or_moves_is_measured_or_fails_with_its_cause(
    project: Path, body: str, cause: str | None
) -> None:
    (project / "odd.py").write_text(
        "from torch import nn\n\nclass Odd(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer = nn.Linear(4, 4)\n\n    def forward(self, x):\n        {body}\n"
        "        return self.layer(x)\n"
    )
    arguments = ("odd.py::Odd", "--input", "2x4", "--batch", "3" if cause else "2", "--rung", "eager")
    done = tare(project, "run", *arguments, "--device", "cpu", "--no-parity", *QUICK)
    (record,) = json.loads(done.stdout)["records"]
    assert (record["failure"] or {}).get("cause") == cause
    assert done.returncode == (1 if cause else 0)
