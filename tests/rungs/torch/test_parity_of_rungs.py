"""Every rung that a CPU can run computes what the float64 reference computes, inference and training."""

from pathlib import Path

import pytest
import torch
from proof import SMALL, check, make

from tare.cases.case import Mode, Precision
from tare.rungs import get_rung
from tare.workloads import get_workload


@pytest.mark.parametrize(
    "workload", [pytest.param(name, marks=pytest.mark.full) if name == "resnet50" else name for name in SMALL]
)
@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("rung", ["eager", "torchscript"])
def test_same_as_the_reference(workload: str, mode: Mode, rung: str, tmp_path: Path) -> None:
    parity = check(make(workload, rung, mode), tmp_path)
    assert parity.status == "same", parity
    assert parity.undecided == 0
    if mode == "train":
        parameters = len(list(get_workload(workload).build(make(workload, rung, mode).sizes).parameters()))
        # The first loss on three batches, the third loss on one, and of each parameter its gradient and update.
        assert parity.compared == 3 + 1 + 2 * parameters


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("workload", ["mnist_cnn", pytest.param("mlp", marks=pytest.mark.full)])
def test_compiled_is_the_same(workload: str, mode: Mode, tmp_path: Path) -> None:
    torch.compiler.reset()
    assert check(make(workload, "compile", mode), tmp_path).status == "same"


@pytest.mark.parametrize("workload", ["mlp", "lstm"])
def test_scripted_instead_of_traced(workload: str, tmp_path: Path) -> None:
    assert check(make(workload, "torchscript:script", "train"), tmp_path).status == "same"


# float16 weights do not train: the catalogue refuses that case.
LOW = [
    (precision, mode)
    for precision in ("bf16", "fp16", "amp-bf16", "amp-fp16")
    for mode in ("infer", "train")
    if (precision, mode) != ("fp16", "train")
]


@pytest.mark.parametrize(("precision", "mode"), LOW)
@pytest.mark.parametrize("rung", ["eager", "torchscript"])
def test_low_precision_is_proved_within_its_own_noise(
    precision: Precision, mode: Mode, rung: str, tmp_path: Path
) -> None:
    parity = check(make("mlp", rung, mode, precision), tmp_path)
    assert parity.status == "same", parity
    assert parity.error is not None
    assert parity.error > 1e-5, "computed in float32 after all"


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_other_optimizers(optimizer: str, tmp_path: Path) -> None:
    assert check(make("mlp", "torchscript", "train", optimizer=optimizer), tmp_path).status == "same"


def test_channels_last_is_the_same_and_really_channels_last(tmp_path: Path) -> None:
    case = make("resnet50", "eager", "infer", layout="channels-last")
    assert check(case, tmp_path).status == "same"
    program = get_rung("eager").prepare(get_workload("resnet50"), case)
    weight = program.model.layer1[0].conv2.weight  # type: ignore[attr-defined]
    program.close()
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()


def test_weights_and_inputs_are_the_same_in_every_process_and_never_zero() -> None:
    workload = get_workload("mnist_cnn")
    first, second = workload.build({"classes": 10}), workload.build({"classes": 10})
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.abs().sum() > 0
    x, y = workload.inputs(4, {"classes": 10}), workload.inputs(4, {"classes": 10})
    assert torch.equal(x.args[0], y.args[0])
    assert x.args[0].std() > 0.5


@pytest.mark.parametrize("channels", [1, 3])
def test_resnet_takes_any_resolution_classes_and_channels(channels: int) -> None:
    sizes = {"resolution": 40, "classes": 7, "channels": channels}
    workload = get_workload("resnet50")
    batch = workload.inputs(2, sizes)
    assert workload.build(sizes).eval()(*batch.args).shape == (2, 7)


def test_lstm_is_time_major() -> None:
    sizes = {"hidden": 8, "input": 5, "layers": 2, "steps": 7}
    workload = get_workload("lstm")
    output, (h, _) = workload.build(sizes)(*workload.inputs(3, sizes).args)
    assert output.shape == (7, 3, 8)
    assert h.shape == (2, 3, 8)
