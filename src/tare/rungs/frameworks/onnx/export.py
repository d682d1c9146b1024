"""A workload as an ONNX file, with the batches as the arrays that the file's inputs take."""

import contextlib
import io
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import TareError, first_line
from tare.rungs.torch.numerics import PRECISIONS
from tare.workloads.base import Workload
from tare.workloads.variants import make_batches

LEGACY = "exported by torch's older ONNX exporter, because the newer one failed"


class OnnxModel(NamedTuple):
    """`inputs` are the arrays of each batch, in the order of the file's inputs."""

    path: Path
    inputs: list[list[NDArray[Any]]]
    notes: list[str]
    build_s: float


def export(workload: Workload, case: Case, folder: Path) -> OnnxModel:
    """Exported on the CPU, wherever it will run: the file is the same, and the device keeps its memory. By torch's
    newer exporter; where that fails, by the older one. A workload that is an ONNX file is taken as it is."""
    if workload.is_onnx:
        return _given(workload, case)
    import msgspec
    import torch
    from torch.utils import _pytree as pytree

    from tare.rungs.torch.outputs import TensorOutputs
    from tare.rungs.torch.program import TorchProgram

    path, notes = folder / "model.onnx", []
    with contextlib.closing(TorchProgram(workload, msgspec.structs.replace(case, device="cpu"))) as program:
        model, args = TensorOutputs(program.model), program.host_batches[0].args
        # Export takes no tensors made under inference mode, and needs no gradients.
        with torch.inference_mode(False), torch.no_grad(), _silence():
            try:
                _export(model, args, path, dynamo=True)
            except Exception as newer:  # noqa: BLE001 - whatever a user's model raises, the older exporter is tried
                try:
                    _export(model, args, path, dynamo=False)
                except Exception as older:
                    reason = f"{first_line(newer)}; the older exporter: {first_line(older)}"
                    raise TareError(f"it cannot be exported to ONNX: {reason}"[:600]) from older
                notes.append(LEGACY)
        inputs = [
            [leaf.numpy().copy() for leaf in pytree.tree_leaves(batch.args) if isinstance(leaf, torch.Tensor)]
            for batch in program.host_batches
        ]
        return OnnxModel(path, inputs, notes, program.build_s)


def _given(workload: Workload, case: Case) -> OnnxModel:
    from tare.rungs.torch.feeds import move

    began = time.perf_counter()
    batches = [
        move(batch, "cpu", PRECISIONS[case.precision], case.layout)
        for batch in make_batches(workload, case.batch, case.sizes)
    ]
    inputs = [[leaf.numpy() for leaf in batch.args] for batch in batches]
    return OnnxModel(workload.definition.path, inputs, [], time.perf_counter() - began)


def name_inputs(model: OnnxModel, names: list[str]) -> list[dict[str, NDArray[Any]]]:
    """Each batch by the names that the inputs have where the model was loaded."""
    if len(names) != len(model.inputs[0]):
        raise TareError(f"the exported model takes {len(names)} of {len(model.inputs[0])} inputs")
    return [dict(zip(names, arrays, strict=True)) for arrays in model.inputs]


def _export(model: Any, args: tuple[Any, ...], path: Path, dynamo: bool) -> None:
    import torch

    # Above two gigabytes the weights must be in a file of their own, which only the newer exporter can write.
    options = {"external_data": True} if dynamo else {}
    torch.onnx.export(model, args, str(path), dynamo=dynamo, **options)


@contextlib.contextmanager
def _silence() -> Any:
    """Exporters print their progress and warn of what is converted."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
