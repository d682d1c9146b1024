"""A user's own models on a GPU: a CNN, a small GPT, a BERT of transformers and a training loop, on every rung."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tare

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
EXAMPLE = Path(__file__).parents[2] / "examples" / "four-models"
INFER = ("eager", "compile", "cudagraph", "aot", "libtorch:script", "vendor")
TRAIN = ("eager", "compile", "cudagraph", "vendor")
BERT = "hf:small-bert/config.json"
# As short as a case can be, and each rung prepared beside the others. C++ is built where it is not yet.
SHORT = ("--rounds", "1", "--budget", "1", "--jobs", "6", "--device", DEVICE, "--json")


def run(home: Path, *args: str) -> dict[str, Any]:
    return read(tare_in(EXAMPLE, home, "run", *args, *SHORT))


def tare_in(folder: Path, home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TARE_HOME": str(home), "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    command = [sys.executable, "-m", "tare", *args]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)


def read(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def by_rung(document: dict[str, Any]) -> dict[str, str]:
    """What became of each rung: its parity, or why it has no time."""
    rungs = {skip["key"].split("/")[1]: f"skipped: {skip['reason']}" for skip in document["skipped"]}
    for record in document["records"]:
        failure = record["failure"]
        rungs[record["case"]["rung"]] = failure["message"] if failure else record["parity"]["status"]
    return rungs


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the programs that are built already."""
    from tare.system.home import home_folder

    (tmp_path / "native").symlink_to(home_folder("native"))
    return tmp_path


@pytest.fixture(scope="module")
def models() -> ModuleType:
    spec = importlib.util.spec_from_file_location("four_models", EXAMPLE / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Pickle finds the module of a class by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["models.py::Cnn", "models.py::Gpt", BERT], ids=["cnn", "gpt", "bert"])
def test_a_model_is_the_same_on_every_rung(target: str, home: Path) -> None:
    rungs = by_rung(run(home, target, "--batch", "4", "--rung", ",".join(INFER)))
    assert rungs == dict.fromkeys(INFER, "same")


@pytest.mark.parametrize(("name", "inputs"), [("Cnn", "image_batch"), ("Gpt", "next_word_batch")])
def test_its_training_is_the_same_too(name: str, inputs: str, home: Path) -> None:
    options = ("--inputs", f"models.py::{inputs}", "--loss", "models.py::loss", "--mode", "train", "--batch", "4")
    found = by_rung(run(home, f"models.py::{name}", *options, "--rung", ",".join(TRAIN)))
    assert found == dict.fromkeys(TRAIN, "same")


def test_a_whole_step_keeps_its_optimizer_clipping_and_schedule(home: Path) -> None:
    document = run(home, "models.py::train_step", "--rung", "eager,compile,cudagraph")
    rungs = by_rung(document)
    assert (rungs["eager"], rungs["compile"]) == ("same", "same")
    # It is not captured: its host code decides in every step what the device does.
    assert rungs["cudagraph"].startswith("skipped: ")
    assert {record["case"]["optimizer"] for record in document["records"]} == {"own"}


def test_a_model_of_a_file_is_explained(home: Path) -> None:
    document = read(tare_in(EXAMPLE, home, "explain", "models.py::Cnn", "--device", DEVICE, "--quick", "--json"))
    (explained,) = document["explanations"]
    parts = explained["breakdown"]
    assert parts["active"] > 0
    assert parts["window"] == sum(parts[part] for part in ("active", "communicating", "movement", "idle"))
    (diagnosis,) = document["diagnoses"]
    assert any("convolution" in operator["name"] for operator in diagnosis["operators"])


def test_an_edit_that_makes_a_step_slower_is_found(home: Path, tmp_path: Path) -> None:
    """By far longer than any disturbance of the host."""
    work = tmp_path / "work"
    shutil.copytree(EXAMPLE, work / "base")
    text, end = (EXAMPLE / "models.py").read_text(), "return value.detach()"
    assert text.count(end) == 1
    (work / "models.py").write_text(text.replace(end, f"__import__('time').sleep(0.1)\n    {end}"))
    how = ("--rung", "eager", "--device", DEVICE, "--budget", "1", "--metric", "gross", "--confirm", "8")
    done = tare_in(
        work, home, "check", "models.py::train_step", "--baseline-dir", "base", *how, "--no-diff", "--json"
    )
    assert done.returncode == 1, done.stderr
    (case,) = read(done)["cases"]
    (change,) = case["changes"]
    assert (change["verdict"], change["stage"], change["regression"]) == ("slower", "confirmed", True), change


def test_a_model_of_this_process_is_measured(models: ModuleType) -> None:
    model = models.Gpt().to(DEVICE).eval()
    (tokens,), _ = models.next_word_batch(4)
    tokens = tokens.to(DEVICE)
    with torch.no_grad():
        result = tare.measure(model, tokens, budget=1.0)
    assert torch.device(result.device).type == DEVICE
    assert not any("too short" in note for note in result.notes)
    # The logits alone.
    if DEVICE == "cuda":
        assert result.device_memory is not None
        assert (result.device_memory.allocated_peak or 0) >= 4 * models.LENGTH * models.WORDS * 4


def test_a_model_of_this_process_has_a_ladder(
    models: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(home))
    (images,), labels = models.image_batch(8)
    rungs = ["eager", "cudagraph"]
    ladder = tare.ladder(
        models.Cnn(), ((images,), labels), loss=models.loss, rungs=rungs, device=DEVICE, rounds=1, budget=1.0
    )
    assert [(rung.name, rung.parity) for rung in ladder] == [(name, "same") for name in rungs]
    assert {record.case.mode for record in ladder.records} == {"train"}
    assert ladder.best is not None
