"""The program of a user's whole step: the step is theirs, batches and evidence are those of TorchProgram."""

import copy
import time
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from tare.cases.case import Case
from tare.rungs.torch.feeds import hold, move
from tare.rungs.torch.numerics import PRECISIONS, Numerics
from tare.rungs.torch.program import TorchProgram
from tare.workloads.base import Workload
from tare.workloads.own.step import OwnStep
from tare.workloads.variants import make_batches


def eager_program(workload: Workload, case: Case, numerics: Numerics | None = None) -> TorchProgram:
    """A workload in eager PyTorch: a model with our step around it, or a user's whole step."""
    return WholeStep(workload, case, numerics) if workload.is_step else TorchProgram(workload, case, numerics)


class WholeStep(TorchProgram):
    """`model` holds the modules that the step can reach, by the names that the user gave them."""

    def __init__(self, workload: Workload, case: Case, numerics: Numerics | None = None) -> None:
        began = time.perf_counter()
        self.case, self.workload = case, workload
        self.numerics = numerics or PRECISIONS[case.precision]
        self.device = torch.device(case.device)
        if self.device.index is not None:
            torch.cuda.set_device(self.device)
        self.notes: list[str] = []
        self.hides_kernels = ""
        self.trains = case.mode == "train"
        self.scaler = None
        self._scope = ExitStack()
        # What the file creates without naming a device is created there. A mode that stayed on would slow steps.
        with self.device:
            self._own: OwnStep = workload.definition.open()
        self.model = nn.ModuleDict(self._own.modules)
        self.numerics.convert(self.model).to(self.device)
        for tensor in self._own.tensors.values():
            tensor.data = self._settle(tensor.data)
        self.host_batches = [
            move(batch, "cpu", self.numerics, case.layout)
            for batch in make_batches(workload, case.batch, case.sizes)
        ]
        self.held = hold(self.host_batches[0], self.device, case.feed)
        self._batches = [hold(batch, self.device, case.feed) for batch in self.host_batches]
        self._initial = self._weights()
        self._optimizer_states = {
            name: copy.deepcopy(optimizer.state_dict()["param_groups"])
            for name, optimizer in self._own.optimizers.items()
        }
        self._other_states = {name: copy.deepcopy(other.state_dict()) for name, other in self._own.others.items()}
        self.step = self._call_with_batch()
        self.synchronize()
        self.build_s = time.perf_counter() - began

    def _settle(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            tensor = self.numerics.convert(tensor)
        return tensor.to(self.device)

    def _call_with_batch(self) -> Any:
        call, args = self._own.call, self.held.args
        if not args:
            return call
        return lambda: call(*args)

    def rewind(self) -> None:
        """The state that is reachable. A counter in a variable of Python goes on."""
        with torch.no_grad():
            for name, tensor in self.model.state_dict().items():
                tensor.copy_(self._initial[name], non_blocking=True)
        for name, optimizer in self._own.optimizers.items():
            # A step count or momentum that starts from zero is as good as none.
            for state in optimizer.state.values():
                for value in state.values():
                    if isinstance(value, torch.Tensor):
                        value.zero_()
            for group, initial in zip(optimizer.param_groups, self._optimizer_states[name], strict=True):
                # A schedule has changed the learning rate.
                group.update({key: value for key, value in initial.items() if key != "params"})
        for name, other in self._own.others.items():
            other.load_state_dict(copy.deepcopy(self._other_states[name]))
