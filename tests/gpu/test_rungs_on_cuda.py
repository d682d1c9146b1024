"""Every rung on CUDA computes the reference, in every precision, inference and training."""

from pathlib import Path

import msgspec
import pytest
import torch
from planted_outputs import TENSORS
from proof import SMALL, check, make

from tare.cases.case import CHOICES, Case, Mode, Precision
from tare.measure.parity import errors, load_reference
from tare.worker.reference import make_reference

HAND_MADE = ["eager", "torchscript", "cudagraph"]
EVERY = [
    (rung, precision, mode)
    for precision in CHOICES["precision"]
    for mode in ("infer", "train")
    for rung in HAND_MADE
    # float16 weights do not train; TorchScript's limit has a test of its own.
    if (precision, mode) != ("fp16", "train") and (rung, precision, mode) != ("torchscript", "amp-bf16", "train")
]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch.compiler.reset()


# The rungs vary fastest: they follow one another in one process, which makes their reference once.
@pytest.mark.parametrize("rung", HAND_MADE)
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("workload", SMALL)
def test_same_as_the_reference(workload: str, rung: str, mode: Mode, tmp_path: Path) -> None:
    parity = check(make(workload, rung, mode, device="cuda", batch=8), tmp_path)
    assert parity.status == "same", parity
    assert parity.undecided == 0


@pytest.mark.parametrize(("rung", "precision", "mode"), EVERY)
def test_every_precision(rung: str, precision: Precision, mode: Mode, tmp_path: Path) -> None:
    parity = check(make("mnist_cnn", rung, mode, precision, device="cuda", batch=16), tmp_path)
    assert parity.status == "same", parity


@pytest.mark.parametrize("rung", [*HAND_MADE, "compile:reduce-overhead"])
@pytest.mark.parametrize("kind", ["dict", "nested"])
def test_every_tensor_of_a_nested_output_is_compared(kind: str, rung: str, tmp_path: Path) -> None:
    parity = check(Case(workload=f"planted_output_{kind}", rung=rung, device="cuda", batch=4), tmp_path)
    assert parity.status == "same", parity
    assert parity.compared == 3 * TENSORS


def test_torchscript_cannot_train_a_softmax_under_bfloat16_autocast(tmp_path: Path) -> None:
    """A limit of TorchScript's own backward (it takes float16 there, not bfloat16): a failure, never a time."""
    with pytest.raises(RuntimeError, match="TorchScript interpreter"):
        check(make("mnist_cnn", "torchscript", "train", "amp-bf16", device="cuda", batch=16), tmp_path)


@pytest.mark.parametrize("rung", ["compile", "compile:reduce-overhead"])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_compiled_is_the_same(rung: str, mode: Mode, tmp_path: Path) -> None:
    parity = check(make("mnist_cnn", rung, mode, "amp-bf16", device="cuda", batch=16), tmp_path)
    assert parity.status == "same", parity


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_a_captured_step_counts_its_own_steps(optimizer: str, tmp_path: Path) -> None:
    parity = check(make("mlp", "cudagraph", "train", device="cuda", optimizer=optimizer), tmp_path)
    assert parity.status == "same", parity


@pytest.mark.parametrize("feed", ["pinned", "pageable"])
@pytest.mark.parametrize("rung", HAND_MADE)
def test_every_feed(feed: str, rung: str, tmp_path: Path) -> None:
    parity = check(make("mnist_cnn", rung, "train", device="cuda", feed=feed), tmp_path)
    assert parity.status == "same", parity


@pytest.mark.parametrize("workload", SMALL)
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_the_reference_on_the_gpu_is_the_reference_on_the_cpu(workload: str, mode: Mode, tmp_path: Path) -> None:
    case = make(workload, "eager", mode, device="cuda", batch=4)
    make_reference(case, tmp_path / "cuda")
    make_reference(msgspec.structs.replace(case, device="cpu"), tmp_path / "cpu")
    there, here = load_reference(tmp_path / "cuda"), load_reference(tmp_path / "cpu")
    assert there is not None
    assert here is not None
    assert there[2] == "eager float64 on cuda"
    assert max(errors(here[0], there[0]).values()) < 1e-8
