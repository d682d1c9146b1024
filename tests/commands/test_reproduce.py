"""The command under a report, for someone who reads it elsewhere."""

import subprocess
import sys

import pytest

from tare.commands.check import Version, _baseline_label
from tare.commands.reproduce import reproduce


@pytest.mark.parametrize(
    "arguments",
    [
        "check night.toml --baseline main --resume --format markdown",
        "check night.toml --baseline main -o report.md --format markdown",
        "check night.toml --baseline main -oreport.md --format markdown",
        "check night.toml --baseline main --output report.md --resume --format markdown",
        "check night.toml --output=report.md --baseline main --format markdown",
        "check night.toml --baseline main --format markdown",
    ],
)
def test_the_command_measures_anew_and_writes_no_file(arguments: str) -> None:
    assert reproduce(arguments.split(), {}) == "tare check night.toml --baseline main --format markdown"


def test_what_a_shell_would_split_is_quoted() -> None:
    arguments = ["compare", "newest~1", "gpu=NVIDIA H200"]
    assert reproduce(arguments, {}) == "tare compare 'newest~1' 'gpu=NVIDIA H200'"


def test_the_command_carries_what_it_needs() -> None:
    """The file of the model, its inputs and the tags as they were given; plug-ins, modules, the store, and what
    changes a step. Nothing else of the environment, and no secret."""
    variables = {
        "TARE_PLUGINS": "my_rungs,my_workloads",
        "PYTHONPATH": "src:some folder",
        "TARE_STORE": "night.db",
        "OMP_NUM_THREADS": "2",
        "TORCHINDUCTOR_CACHE_DIR": "/home/me/cache",
        "TORCH_MODEL_HUB_TOKEN": "hunter2",
        "TARE_MODELS": "[]",
        "EDITOR": "vi",
        "CUDA_VISIBLE_DEVICES": "",
    }
    arguments = ["check", "my.py::Model", "--input", "8x3x32x32", "--tag", "pr=12", "--baseline", "main"]
    command = "tare check my.py::Model --input 8x3x32x32 --tag pr=12 --baseline main"
    settings = (
        "CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=2 PYTHONPATH='src:some folder' TARE_PLUGINS=my_rungs,my_workloads"
        " TARE_STORE=night.db"
    )
    assert reproduce(arguments, variables) == f"{settings} {command}"
    database = "postgresql+psycopg://ci:hunter2@db/tare"
    assert reproduce(["compare", "a", "b"], {"TARE_STORE": database, "OMP_NUM_THREADS": "2"}) == "tare compare a b"


def test_the_command_runs_in_a_shell() -> None:
    """The settings are assignments to the shell, however odd their values are."""
    line = reproduce(["check", "x"], {"PYTHONPATH": "a b;$c", "OMP_NUM_THREADS": "3"}).replace(
        "tare check x", "env"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert {"PYTHONPATH=a b;$c", "OMP_NUM_THREADS=3"} <= set(done.stdout.splitlines())


def test_no_secret_is_repeated() -> None:
    """A report in Markdown is meant as the body of an issue."""
    arguments = ["check", "night.toml", "--store", "postgresql+psycopg://ci:hunter2@db/tare?x=1"]
    arguments += ["--baseline-env", "HF_TOKEN=hunter2", "--baseline-env=PYTHONPATH=../main/src", "--resume"]
    assert reproduce(arguments, {"TARE_STORE": "elsewhere.db"}) == (
        "tare check night.toml --store 'postgresql+psycopg://ci:***@db/tare?x=1' --baseline-env 'HF_TOKEN=***'"
        " --baseline-env=PYTHONPATH=../main/src"
    )


def test_the_options_of_a_command_are_kept() -> None:
    arguments = [
        "check",
        "--resume",
        "--baseline",
        "main",
        "--",
        "./tool",
        "-o",
        "out",
        "--resume",
        "--format",
        "a=b",
    ]
    assert reproduce(arguments, {}) == "tare check --baseline main -- ./tool -o out --resume --format a=b"


def test_the_name_of_a_baseline_has_no_secret() -> None:
    version = Version(python=sys.executable, variables={"HF_TOKEN": "hunter2", "PYTHONPATH": "../main/src"})
    assert _baseline_label("main", version) == (
        "baseline main, side by side (HF_TOKEN=*** PYTHONPATH=../main/src)"
    )
