"""The example project, and the commands that docs/own-models.md shows in it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "tinyvision"
PAGE = (ROOT / "docs" / "own-models.md").read_text()
# On a busy machine a process may wait for minutes; nothing here depends on how long.
PATIENCE_S = 1500
pytestmark = pytest.mark.timeout(2 * PATIENCE_S + 100)
# As few seconds as possible, on every machine the same rungs.
QUICK = ("--quick", "--device", "cpu", "--rung", "eager", "--json")


def commands() -> list[str]:
    """The commands of the page that begin a measurement and need nothing else."""
    lines = [line for block in re.findall(r"```\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
    return [
        line for line in lines if line.startswith(("tare run ", "tare explain ")) and "program.pt2" not in line
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "tinyvision", ignore=shutil.ignore_patterns("__pycache__")))


def run(project: Path, *args: str, plugins: str = "tinyvision.workloads") -> subprocess.CompletedProcess[str]:
    source = str(project / "src")
    variables = {"TARE_HOME": str(project / "home"), "PYTHONPATH": source, "TARE_PLUGINS": plugins}
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", *args]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )


def test_the_page_has_commands_and_every_file_it_names_is_there() -> None:
    assert len(commands()) >= 7
    for file in re.findall(r"src/tinyvision/\w+\.py", PAGE):
        assert (EXAMPLE / file).is_file(), file


@pytest.mark.full
def test_the_model_of_the_example_is_described(project: Path) -> None:
    done = run(
        project, "tare", "run", "src/tinyvision/model.py::TinyNet", "--device", "cpu", "--dry-run", "--json"
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert any(case.startswith("model.py::TinyNet/eager/infer/cpu/fp32/batch=16/") for case in cases)
    assert all("inputs=Nx3x32x32,source=" in case for case in cases)


@pytest.mark.full
@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_page_works(project: Path, command: str) -> None:
    words = [word for word in shlex.split(command, comments=True)[1:] if word not in ("--rung", "eager")]
    # The measured length is not the point, and --quick has its own.
    words = re.sub(r" --rounds \d+", "", " ".join(words)).split()
    done = run(project, "tare", *words, *QUICK)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_the_example_is_a_plug_in(project: Path) -> None:
    done = run(project, "tare", "run", "tinyvision", "--smoke", "--mode", "train", *QUICK, "--parity")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    assert record["parity"]["status"] == "same", record["parity"]


@pytest.mark.full
def test_the_test_of_the_example_is_skipped_until_a_baseline_is_stored(project: Path) -> None:
    plug_in = ("pytest", "-q", "-p", "no:cacheprovider", "-rs", "tests")
    done = run(project, *plug_in)
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout


@pytest.mark.full
def test_the_four_models_are_what_they_say(tmp_path: Path) -> None:
    """Their records on a GPU are another matter: scripts/reproduce own-models."""
    project = Path(shutil.copytree(ROOT / "examples" / "four-models", tmp_path / "four"))
    networks = ("models.py::Cnn", "models.py::Gpt", "hf:small-bert/config.json", "--batch", "1")
    found = []
    for targets in (networks, ("models.py::train_step",)):
        done = run(project, "tare", "run", *targets, *QUICK, "--parity", plugins="")
        assert done.returncode == 0, done.stderr
        found += json.loads(done.stdout)["records"]
    assert [(record["case"]["workload"], record["parity"]["status"]) for record in found] == [
        (name, "same") for name in ("models.py::Cnn", "models.py::Gpt", "hf:small-bert", "models.py::train_step")
    ]


def test_the_action_takes_what_the_example_gives() -> None:
    """Without a parser of YAML: the names of inputs are at one depth."""
    action = (ROOT / "action.yml").read_text()
    declared = set(re.findall(r"^  ([a-z-]+):$", action.partition("runs:")[0], re.M))
    workflow = (EXAMPLE / ".github" / "workflows" / "speed.yml").read_text()
    given = set(re.findall(r"^ {10}([a-z-]+):", workflow, re.M))
    assert given
    assert given <= declared
    used = set(re.findall(r"\$\{\{ inputs\.([a-z-]+) \}\}", action))
    assert used == declared
    # An input of a workflow may hold anything: it reaches a shell by a variable only.
    for script in re.findall(r"run: \|\n((?: {8,}.*\n?)+)", action):
        assert "${{" not in script


NOTEBOOK = json.loads((ROOT / "docs" / "own-models.ipynb").read_text())


def test_the_notebook_publishes_no_figures() -> None:
    """Each reader's machine has its own."""
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])


@pytest.mark.full
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """As IPython does: the statements of a cell, then the display of its last expression."""
    cells = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    script = tmp_path / "cells.py"
    script.write_text(
        "import ast, json, sys\n"
        "names = {'__name__': '__main__'}\n"
        "for source in json.load(sys.stdin):\n"
        "    tree = ast.parse(source)\n"
        "    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None\n"
        "    exec(compile(tree, 'cell', 'exec'), names)\n"
        "    if last is not None:\n"
        "        value = eval(compile(ast.Expression(last.value), 'cell', 'eval'), names)\n"
        "        print(value)\n"
        "        getattr(value, '_repr_html_', str)()\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], input=json.dumps(cells), env={**os.environ, "TARE_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "torchscript" in done.stdout
    assert "backward" in done.stdout
