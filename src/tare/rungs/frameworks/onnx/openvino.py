"""OpenVINO: the model exported to ONNX, compiled for the CPU by OpenVINO."""

import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import TareError
from tare.measure.parity import thinned
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.frameworks.onnx.export import export, name_inputs
from tare.rungs.frameworks.program import BY_NAME
from tare.rungs.registry import rung
from tare.workloads.base import Workload

# What exporting and running need.
MODULES = ("onnx", "onnxscript", "openvino")
# What OpenVINO computes in. It would otherwise choose the narrowest type that the processor has.
COMPUTED_IN = {"fp32": "f32", "amp-bf16": "bf16"}


@rung
class OpenVino(Rung):
    name = "openvino"
    summary = "exported to ONNX, compiled by OpenVINO for the CPU"
    not_by_default = {"": BY_NAME}
    distribution = "openvino"
    onnx_files = True

    def available(self, device_type: str) -> Missing | None:  # noqa: ARG002
        lacking = [module for module in MODULES if find_spec(module) is None]
        return Missing(f"needs {', '.join(lacking)}", "tare env create openvino") if lacking else None

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        if case.mode == "train":
            return "it runs inference only"
        if case.device_type != "cpu":
            return "it runs on the CPU"
        if case.precision not in COMPUTED_IN:
            return f"it computes in {' or '.join(COMPUTED_IN)}"
        if case.feed != "device":
            return "it keeps its batch in its own tensors: only --feed device"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:  # noqa: ARG002
        return ("graph compiled by OpenVINO", "weights frozen")

    def prepare(self, workload: Workload, case: Case) -> Program:
        return OpenVinoProgram(workload, case)


class OpenVinoProgram(Program):
    def __init__(self, workload: Workload, case: Case) -> None:
        computed_in = COMPUTED_IN[case.precision]
        if computed_in == "bf16" and "BF16" not in _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise TareError("this processor has no bfloat16 that OpenVINO uses")
        with tempfile.TemporaryDirectory() as folder:
            model = export(workload, case, Path(folder))
            compiled = _core().compile_model(str(model.path), "CPU", _settings(case, computed_in))
        self.build_s, self.notes = model.build_s, model.notes
        self._batches = name_inputs(model, [entry.any_name for entry in compiled.inputs])
        self._request = compiled.create_infer_request()
        self._outputs = [self._request.get_output_tensor(i) for i in range(len(compiled.outputs))]
        self.step = self._step()
        self.select(0)

    def select(self, batch: int) -> None:
        for name, values in self._batches[batch].items():
            # Into the memory that the request reads.
            self._request.get_tensor(name).data[:] = values

    def checksum(self, result: Any) -> float:
        return float(sum(tensor.data.sum(dtype=np.float64) for tensor in result))

    def has_nan(self, result: Any) -> bool:
        return any(bool(np.isnan(tensor.data).any()) for tensor in result if tensor.data.dtype.kind == "f")

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        return [thinned(tensor.data).astype(np.float32) for tensor in result]

    def _step(self) -> Any:
        infer, outputs = self._request.infer, self._outputs

        def step() -> Any:
            infer()
            return outputs

        return step


@cache
def _core() -> Any:
    import openvino

    return openvino.Core()


def _settings(case: Case, computed_in: str) -> dict[str, Any]:
    """One request at a time, with as many threads as torch has, also where a case does not say how many."""
    import torch

    return {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": computed_in,
        "INFERENCE_NUM_THREADS": case.threads or torch.get_num_threads(),
    }
