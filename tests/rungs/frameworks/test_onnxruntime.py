"""The ONNX Runtime rung computes what the float64 reference computes, or says why it does not."""

from pathlib import Path
from typing import Any

import pytest
from proof import SMALL, TRANSFORMER, check, make

from tare.cases.case import Case, Precision
from tare.errors import TareError
from tare.rungs import get_rung
from tare.rungs.frameworks.onnx.export import LEGACY
from tare.workloads import get_workload


@pytest.mark.parametrize(
    "workload",
    [name if name == "mlp" else pytest.param(name, marks=pytest.mark.full) for name in (*SMALL, *TRANSFORMER)],
)
def test_same_as_the_reference(workload: str, tmp_path: Path) -> None:
    parity = check(make(workload, "onnxruntime", "infer"), tmp_path)
    assert parity.status == "same", parity
    assert parity.compared >= 3


@pytest.mark.full
@pytest.mark.parametrize("workload", ["mlp", "mnist_cnn", "lstm", "nanogpt"])
def test_half_precision_is_the_same_within_its_own_noise(workload: str, tmp_path: Path) -> None:
    parity = check(make(workload, "onnxruntime", "infer", "fp16"), tmp_path)
    assert parity.status == "same", parity
    assert parity.error is not None
    assert parity.error > 1e-5, "computed in float32 after all"


@pytest.mark.full
def test_the_older_exporter_takes_over_and_a_note_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    export = torch.onnx.export

    def fails(*args: Any, dynamo: bool, **options: Any) -> Any:
        if dynamo:
            raise RuntimeError("planted")
        return export(*args, dynamo=dynamo, **options)

    monkeypatch.setattr(torch.onnx, "export", fails)
    case = make("mnist_cnn", "onnxruntime", "infer")
    assert check(case, tmp_path).status == "same"
    assert get_rung("onnxruntime").prepare(get_workload("mnist_cnn"), case).notes == [LEGACY]


def test_what_cannot_be_exported_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def fails(*_: Any, dynamo: bool, **__: Any) -> None:
        raise RuntimeError(f"planted, {'newer' if dynamo else 'older'}\nwith more lines")

    monkeypatch.setattr(torch.onnx, "export", fails)
    with pytest.raises(TareError, match=r"cannot be exported to ONNX: planted, newer.*planted, older") as caught:
        get_rung("onnxruntime").prepare(get_workload("mlp"), make("mlp", "onnxruntime", "infer"))
    assert "\n" not in str(caught.value)


def test_a_provider_that_is_missing_is_no_silent_cpu() -> None:
    """This package has no CUDA provider, and ONNX Runtime would compute on the CPU after a warning."""
    with pytest.raises(TareError, match=r"computes on .*CPUExecutionProvider"):
        get_rung("onnxruntime").prepare(get_workload("mlp"), make("mlp", "onnxruntime", "infer", device="cuda"))
    missing = get_rung("onnxruntime").available("cuda")
    assert missing is not None
    assert "CUDA" in missing.reason


@pytest.mark.parametrize(
    ("mode", "precision", "reason"),
    [("train", "fp32", "inference only"), ("infer", "amp-bf16", "autocast"), ("infer", "bf16", "bfloat16")],
)
def test_what_it_cannot_do_has_a_reason(mode: Any, precision: Precision, reason: str) -> None:
    case: Case = make("mlp", "onnxruntime", mode, precision)
    assert reason in str(get_rung("onnxruntime").supports(case, get_workload("mlp")))
