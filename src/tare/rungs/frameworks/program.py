"""What a framework outside torch starts from: the weights and batches of the torch model, in host memory."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import TareError
from tare.measure.parity import thinned
from tare.rungs.base import Arrays, Program
from tare.rungs.torch.numerics import PRECISIONS
from tare.workloads.base import Batch, Workload
from tare.workloads.variants import make_batches

BY_NAME = "a ladder that names no rungs stays within PyTorch; name this rung to measure it"


class HostBatch(NamedTuple):
    """The arrays of one batch. Whole numbers are int32: no framework here has 64 bits by default, and indices of
    the zoo's models fit."""

    args: tuple[NDArray[Any], ...]
    target: NDArray[Any]


class HostModel(NamedTuple):
    """The parameters and buffers of a torch model by their names there, in float32. A framework rounds them to the
    precision of the case itself, as torch does: to the nearest, ties to even."""

    parameters: dict[str, NDArray[np.float32]]
    buffers: dict[str, NDArray[Any]]
    batches: list[HostBatch]
    build_s: float


def host_model(workload: Workload, case: Case) -> HostModel:
    began = time.perf_counter()
    model = workload.build(case.sizes)
    parameters = {name: tensor.detach().numpy().copy() for name, tensor in model.named_parameters()}
    buffers = {name: tensor.detach().numpy().copy() for name, tensor in model.named_buffers()}
    batches = [host_batch(batch) for batch in make_batches(workload, case.batch, case.sizes)]
    return HostModel(parameters, buffers, batches, time.perf_counter() - began)


def host_batch(batch: Batch) -> HostBatch:
    return HostBatch(tuple(map(_host, batch.args)), _host(batch.target))


def _host(tensor: Any) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().numpy()
    return array.astype(np.int32) if array.dtype == np.int64 else array


class FrameworkProgram(Program):
    """A program of another framework, with the evidence of training in terms of torch's parameters."""

    def __init__(self, workload: Workload, case: Case) -> None:
        self.case, self.workload = case, workload
        self.trains = case.mode == "train"
        self.numerics = PRECISIONS[case.precision]
        self.notes: Sequence[str] = ()
        self.host = host_model(workload, case)
        self.build_s = self.host.build_s

    def current_parameters(self) -> Arrays:
        """The parameters by torch's names, in torch's layouts, in float32."""
        raise NotImplementedError

    def first_gradients(self) -> Arrays:
        """The gradients of a first step since `rewind`, likewise."""
        raise NotImplementedError

    def state(self) -> Arrays:
        """Gradients are read from the optimizer's state, which holds them after a first step: a step that returned
        them would do more than the step of a user. Parity asks for no others."""
        evidence = {f"gradient/{name}": array for name, array in self.first_gradients().items()}
        # In half precision an update is mostly the rounding of the weight, and proves nothing.
        if self.numerics.storage == "float32":
            initial = self.host.parameters
            for name, array in self.current_parameters().items():
                evidence[f"update/{name}"] = array - initial[name]
        return {name: thinned(array) for name, array in evidence.items()}


def refuse_placement(rung: str, wanted: object, found: object) -> TareError:
    """For results that are elsewhere than the case says: a framework that finds no driver computes on the CPU."""
    return TareError(f"{rung} computes on {found}, not on {wanted}: install its version for this device")
