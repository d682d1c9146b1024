"""The commands tare train and tare frames. tests/execute/test_call_stacks.py tests the frame counter."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from commandline import start_tare, tare, wait_until
from image_files import make_split, write_mnist

# As short as a training can be: a few dozen steps on digits.
SHORT = ("train", "mlp", "--rung", "eager,torchscript", "--device", "cpu", "--samples", "320")


def figures_of(document: dict[str, Any]) -> list[Any]:
    return [
        (rung["case"]["rung"], run["run"], run["epochs"]) for rung in document["rungs"] for run in rung["runs"]
    ]


@pytest.mark.full
def test_a_training_has_a_table_a_page_and_a_verdict(tmp_path: Path) -> None:
    done = tare(tmp_path, *SHORT, "--epochs", "2", "--runs", "2", "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith(("eager", "torchscript")) for line in lines) == 5
    assert lines[-1].strip() == "Within seed noise of eager: torchscript"
    assert "digits: 320 training and 359 test images" in done.stdout
    assert "Within seed noise of eager: torchscript" in (tmp_path / "page.html").read_text()
    # A second command of the same training goes on from what is there: nothing is left to do.
    again = tare(tmp_path, *SHORT, "--epochs", "2", "--runs", "2", "--resume", "--json")
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert [len(epochs) for _, _, epochs in figures_of(document)] == [2, 2, 2, 2]
    assert document["summary"] == "Within seed noise of eager: torchscript"
    assert "epoch 1" not in again.stderr


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_training_goes_on_and_ends_alike(tmp_path: Path, number: signal.Signals) -> None:
    asked = ("train", "mlp", "--rung", "eager", "--device", "cpu", "--epochs", "6", "--runs", "1", "--json")
    whole = tare(tmp_path / "whole", *asked)
    assert whole.returncode == 0, whole.stderr
    home = tmp_path / "cut"
    home.mkdir()
    running = start_tare(home, *asked)
    wait_until(lambda: any(home.glob("training/*/eager-0/epoch-*")))
    running.send_signal(number)
    _, stderr = running.communicate(timeout=60)
    if number == signal.SIGINT:
        assert running.returncode == 130, stderr
        assert stderr.endswith("tare: interrupted: the same command with --resume continues from here\n")
    resumed = tare(home, *asked, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "eager, run 1, epoch 1:" not in resumed.stderr
    assert figures_of(json.loads(resumed.stdout)) == figures_of(json.loads(whole.stdout))


@pytest.mark.full
def test_training_that_diverges_is_a_result(tmp_path: Path) -> None:
    done = tare(tmp_path, *SHORT, "--epochs", "3", "--runs", "1", "--learning-rate", "1e6")
    assert done.returncode == 0, done.stderr
    assert "eager, run 1 diverged in epoch 1: a loss is not finite" in done.stdout
    done = tare(tmp_path, *SHORT, "--epochs", "3", "--runs", "1", "--learning-rate", "1e6", "--resume", "--json")
    (eager, torchscript) = figures_of(json.loads(done.stdout))
    assert eager[2] == torchscript[2]
    assert eager[2][0]["loss"] is None


@pytest.mark.full
def test_prove_prints_a_table_that_fits(tmp_path: Path) -> None:
    done = tare(tmp_path, "train", "mlp", "--rung", "eager,aot", "--device", "cpu", "--prove", "3")
    assert done.returncode == 0, done.stderr
    assert "3 training steps on digits" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("eager"))
    assert row.split()[-1] == "same"
    assert "AOTInductor compiles inference only" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.full
def test_prove_as_json_has_every_loss(tmp_path: Path) -> None:
    done = tare(tmp_path, "train", "mlp", "--rung", "torchscript", "--device", "cpu", "--prove", "3", "--json")
    assert done.returncode == 0, done.stderr
    (curve,) = json.loads(done.stdout)["curves"]
    assert len(curve["losses"]) == len(curve["reference"]) == len(curve["errors"]) == 3
    assert curve["losses"] == pytest.approx(curve["reference"], rel=1e-4)


@pytest.mark.full
def test_a_file_that_is_cut_off_is_one_line(tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / "raw", make_split(70, 1, 28), make_split(20, 1, 28))
    labels = folder / "train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    asked = ("train", "mnist_cnn", "--data", "mnist", "--data-folder", str(folder), "--rung", "eager")
    done = tare(tmp_path, *asked, "--device", "cpu")
    assert done.returncode == 2
    assert "is damaged: it has 77 bytes, and its header says 78 bytes, of 70" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("train", "mlp", "--data", "faces"), "digits"),
        (("train", "mlp", "--data", "mnist"), "--data-folder FOLDER (or TARE_DATA)"),
        (("train", "mlp", "--data", "mnist", "--data-folder", "/no/such"), "there is no folder /no/such"),
        (
            ("train", "mlp", "--data", "mnist", "--data-folder", "/proc/self/fdinfo"),
            "has no MNIST: want train-images",
        ),
        (("train", "mlp", "--download"), "--download: scikit-learn's handwritten digits need no files"),
        (("train", "mlp", "--prove", "0"), "--prove"),
        (("train", "mlp", "--prove", "3", "--epochs", "3"), "leave out --epochs"),
        (("train", "mlp", "--epochs", "0"), "--epochs"),
        (("train", "mlp", "--learning-rate", "nan"), "--learning-rate"),
        (("train", "mlp", "-o", "/no/such/page.html"), "there is no folder /no/such"),
        (("train", "nothing"), "unknown workload"),
        (("train", "mlp", "--rung", "nothing"), "unknown rung"),
        (("frames", "nothing"), "unknown workload"),
        (("frames", "mlp", "--rung", "nothing"), "unknown rung"),
        (("frames", "mlp", "--mode", "train", "--cost"), "--cost times inference"),
        (("frames", "mlp", "--rounds", "0"), "rounds"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    check_mistake(tmp_path, args, message)


@pytest.mark.full
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("train", "mlp", "--size", "features=63", "--prove", "3"), "features=64"),
        (("train", "mlp", "--samples", "9999"), "--samples 9999: digits has 1438 training images"),
        (("train", "mlp", "--samples", "9"), "there are 9 training images, fewer than a batch of 64"),
        (("train", "mlp", "--batch", "8,16"), "takes one device, precision, batch and size"),
        (("train", "lstm", "--size", "hidden=16"), "lstm has no class for each sample: --prove STEPS"),
    ],
)
def test_a_mistake_that_takes_the_data_to_see(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    check_mistake(tmp_path, (*args, "--rung", "eager", "--device", "cpu"), message)


def check_mistake(home: Path, args: tuple[str, ...], message: str) -> None:
    done = tare(home, *args)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
