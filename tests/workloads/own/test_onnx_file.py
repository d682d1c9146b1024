"""ONNX files as workloads: their inputs, their digest, their reference in float64, and parity with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from proof import check

from tare.cases.case import Case
from tare.cases.source import OwnModel, read_target
from tare.errors import BadInput
from tare.rungs.frameworks.onnx.program import OnnxProgram
from tare.workloads.base import Workload
from tare.workloads.own.onnx_file import OnnxFile
from tare.workloads.own.onnx_reference import evaluated
from tare.workloads.own.registry import _models, register

WEIGHT: NDArray[Any] = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
OUTPUT = ("rows", 3)


@pytest.fixture(autouse=True)
def models_are_forgotten() -> Iterator[None]:
    yield
    _models.clear()


def write(
    path: Path, sizes: tuple[int | str, ...] = (4, 5), kind: int = TensorProto.FLOAT, weight: NDArray[Any] = WEIGHT
) -> Path:
    """relu(x @ W) * 0.1, in which a number is an attribute, an addition happens in a branch, and a cast names its
    type."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    one = numpy_helper.from_array(np.ones(1, dtype), "one")
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Add", ["scaled", "one"], [name])] if name == "then" else
            [helper.make_node("Identity", ["scaled"], [name])],
            name, [], [helper.make_tensor_value_info(name, kind, OUTPUT)], [one] if name == "then" else [],
        )
        for name in ("then", "else")
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("Constant", [], ["tenth"], value_float=0.1),
        helper.make_node("Cast", ["tenth"], ["factor"], to=kind),
        helper.make_node("Mul", ["positive", "factor"], ["scaled"]),
        helper.make_node("If", ["yes"], ["y"], **branches),
    ]
    weights = [
        numpy_helper.from_array(weight.astype(dtype), "weight"),
        numpy_helper.from_array(np.array(True), "yes"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", kind, sizes)],
        [helper.make_tensor_value_info("y", kind, OUTPUT)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path))
    return path


def workload_of(path: Path, *shapes: str) -> Workload:
    source = read_target(str(path), shapes)
    return register(OwnModel(source=source, description=OnnxFile(source).describe()))


def test_what_the_file_says_of_its_inputs(tmp_path: Path) -> None:
    workload = workload_of(write(tmp_path / "m.onnx"))
    assert (workload.batch, workload.inputs_text, workload.trains) == (4, "Nx5", False)
    (x,) = workload.inputs(4, {}).args
    assert (x.shape, x.dtype) == ((4, 5), torch.float32)
    with pytest.raises(BadInput, match="exported for a batch of 4: it takes no 2"):
        workload.inputs(2, {})


def test_an_open_batch_is_any_batch(tmp_path: Path) -> None:
    workload = workload_of(write(tmp_path / "m.onnx", ("n", 5)))
    assert workload.batch == 8
    assert workload.inputs(3, {}).args[0].shape == (3, 5)


@pytest.mark.parametrize(
    ("sizes", "shapes", "message"),
    [
        (("n", "features"), (), r"x is \?x\? \(float32\); say --input x=128x128:float32"),
        ((4, 5), ("4x6",), r"x is 4x5 \(float32\)"),
        ((4, 5), ("4x5", "4x5"), "takes 1 inputs, not 2"),
        ((4, 5), ("z=4x5",), "has no input z; it has x"),
    ],
)
def test_shapes_that_are_missing_or_wrong_are_one_line(
    sizes: tuple[int | str, ...], shapes: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        workload_of(write(tmp_path / "m.onnx", sizes), *shapes)
    assert "\n" not in str(caught.value)


def test_an_open_size_is_given_by_the_option(tmp_path: Path) -> None:
    workload = workload_of(write(tmp_path / "m.onnx", ("n", "features")), "x=2x5")
    assert workload.inputs(2, {}).args[0].shape == (2, 5)


@pytest.mark.parametrize("content", [b"", b"no protobuf at all", b"\x08\x07" * 1000])
def test_what_is_no_onnx_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(BadInput, match=r"m\.onnx is no valid ONNX file") as caught:
        workload_of(tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)


def test_a_file_may_not_reach_out_of_its_folder(tmp_path: Path) -> None:
    """Weights in a file elsewhere: onnx refuses to read it."""
    model = onnx.load(str(write(tmp_path / "m.onnx")))
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(BadInput, match="is no valid ONNX file"):
        workload_of(tmp_path / "below" / "m.onnx")


def test_the_digest_follows_the_weights_also_in_a_file_of_their_own(tmp_path: Path) -> None:
    digests = {workload_of(write(tmp_path / "a.onnx")).digest, workload_of(write(tmp_path / "b.onnx")).digest}
    assert len(digests) == 1
    digests.add(workload_of(write(tmp_path / "c.onnx", weight=2 * WEIGHT)).digest)
    assert len(digests) == 2
    for name, factor in (("d", 1), ("e", 3)):
        model = onnx.load(str(write(tmp_path / "whole.onnx", weight=factor * WEIGHT)))
        folder = tmp_path / name
        folder.mkdir()
        onnx.save(
            model, str(folder / f"{name}.onnx"), save_as_external_data=True, location="weights", size_threshold=0
        )
        digests.add(workload_of(folder / f"{name}.onnx").digest)
    assert len(digests) == 4


def test_the_reference_is_in_float64_throughout(tmp_path: Path) -> None:
    model = evaluated(write(tmp_path / "m.onnx")).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    (y,) = model(x)
    expected = np.maximum(x.numpy() @ WEIGHT.astype(np.float64), 0) * np.float64(np.float32(0.1)) + 1
    assert y.dtype == torch.float64
    assert float(np.abs(y.numpy() - expected).max()) < 1e-14


def test_as_it_is_it_computes_in_its_own_type(tmp_path: Path) -> None:
    (y,) = evaluated(write(tmp_path / "m.onnx"))(torch.randn(4, 5))
    assert y.dtype == torch.float32
    (y,) = evaluated(write(tmp_path / "h.onnx", kind=TensorProto.FLOAT16))(torch.randn(4, 5).half())
    assert y.dtype == torch.float16


def case_of(workload: Workload, precision: Any = "fp32") -> Case:
    return Case(
        workload=workload.name, rung="onnxruntime", batch=4, precision=precision,
        inputs=workload.inputs_text, source=workload.digest,
    )  # fmt: skip


def test_onnx_runtime_computes_the_same(tmp_path: Path) -> None:
    parity = check(case_of(workload_of(write(tmp_path / "m.onnx"))), tmp_path / "reference")
    assert parity.status == "same", parity
    assert parity.compared == 3


def test_half_precision_is_judged_with_its_own_noise(tmp_path: Path) -> None:
    workload = workload_of(write(tmp_path / "half.onnx", kind=TensorProto.FLOAT16))
    assert "--precision fp16" in str(workload.refusal({"infer", "fp32", "cpu"}))
    assert workload.refusal({"infer", "fp16", "cpu"}) is None
    parity = check(case_of(workload, "fp16"), tmp_path / "reference")
    assert parity.status == "same", parity
    assert parity.error is not None
    assert parity.error > 1e-5


def test_a_runtime_that_is_off_is_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = OnnxProgram.arrays
    monkeypatch.setattr(OnnxProgram, "arrays", lambda *of: [values * 1.01 for values in arrays(*of)])
    case = case_of(workload_of(write(tmp_path / "off.onnx")))
    assert check(case, tmp_path / "reference").status == "different"
