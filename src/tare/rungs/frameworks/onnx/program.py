"""The program of the ONNX Runtime rung: one session on one provider."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.measure.parity import thinned
from tare.rungs.base import Program
from tare.rungs.frameworks.onnx.export import OnnxModel, export, name_inputs
from tare.rungs.frameworks.program import refuse_placement
from tare.workloads.base import Workload

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
ERRORS_ONLY = 3


class OnnxProgram(Program):
    def __init__(self, workload: Workload, case: Case) -> None:
        self._case = case
        provider, here = PROVIDERS[case.device_type], onnxruntime.get_available_providers()
        if provider not in here:
            raise refuse_placement("ONNX Runtime", provider, ", ".join(here))
        with tempfile.TemporaryDirectory() as folder:
            model = export(workload, case, Path(folder))
            self._session = open_session(model, case)
        self.build_s, self.notes = model.build_s, model.notes
        self._batches = name_inputs(model, [given.name for given in self._session.get_inputs()])
        self.overlaps = case.device_type != "cpu"
        if self.overlaps:
            self._bind(case.device_index)
            return
        self._given = dict(self._batches[0])
        session, given = self._session, self._given
        self.step = lambda: session.run(None, given)

    def select(self, batch: int) -> None:
        if not self.overlaps:
            self._given.update(self._batches[batch])
            return
        for name, values in self._batches[batch].items():
            # Into the memory that the session reads.
            self._held[name].update_inplace(values)

    def synchronize(self) -> None:
        if self.overlaps:
            self._binding.synchronize_outputs()

    def checksum(self, result: Any) -> float:
        return float(sum(values.sum(dtype=np.float64) for values in _numbers(result)))

    def has_nan(self, result: Any) -> bool:
        return any(bool(np.isnan(values).any()) for values in _numbers(result))

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        return [thinned(_array(values)).astype(np.float32) for values in result]

    def _bind(self, index: int) -> None:
        """Inputs and outputs stay on the device: a step copies nothing."""
        self._binding = self._session.io_binding()
        self._held = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(values, "cuda", index)
            for name, values in self._batches[0].items()
        }
        for name, value in self._held.items():
            self._binding.bind_ortvalue_input(name, value)
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name, "cuda", index)
        session, binding, wanted = self._session, self._binding, self._case.device

        def step() -> Any:
            session.run_with_iobinding(binding)
            return binding.get_outputs()

        self.step = step
        for output in step():
            if output.device_name() != "cuda":
                raise refuse_placement("ONNX Runtime", wanted, output.device_name())


def open_session(model: OnnxModel, case: Case) -> Any:
    """On one provider alone: ONNX Runtime would otherwise leave to the CPU what the provider cannot do, or
    everything, if the provider's libraries are missing."""
    import torch

    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    provider = PROVIDERS[case.device_type]
    settings: dict[str, str] = {}
    if case.device_type == "cpu":
        # As many as torch, also where a case does not say how many.
        options.intra_op_num_threads = torch.get_num_threads()
    else:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        settings = {"device_id": str(case.device_index), "use_tf32": "1" if case.precision == "tf32" else "0"}
    session = onnxruntime.InferenceSession(str(model.path), options, providers=[(provider, settings)])
    if session.get_providers()[0] != provider:
        raise refuse_placement("ONNX Runtime", provider, session.get_providers()[0])
    return session


def _array(values: Any) -> NDArray[Any]:
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else values.numpy()
    return array


def _numbers(result: Any) -> list[NDArray[Any]]:
    return [array for array in map(_array, result) if array.dtype.kind == "f"]
