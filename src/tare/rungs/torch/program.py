"""The program that all torch rungs share: same weights, same batch, same optimizer, same precision.

A rung replaces as little as possible: `forward` (the model), `objective` (model and loss), or the whole `step`.
"""

import time
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from tare.cases.case import Case
from tare.measure.clock import Clock
from tare.measure.devices import make_clock
from tare.measure.memory import TorchAllocator
from tare.measure.parity import thinned
from tare.measure.profiler import profile_steps
from tare.protocol.messages import StepProfile
from tare.records.record import Net
from tare.rungs.base import Arrays, Program, learning_rate
from tare.rungs.torch.feeds import copy_into, hold, make_feed, move
from tare.rungs.torch.numerics import PRECISIONS, Numerics
from tare.rungs.torch.outputs import tensors_of
from tare.workloads.base import Batch, Workload
from tare.workloads.variants import make_batches

# fp16 gradients underflow without scaling; a fixed scale keeps every rung on the same path.
LOSS_SCALE = 1024.0


class TorchProgram(Program):
    def __init__(
        self, workload: Workload, case: Case, numerics: Numerics | None = None, capturable: bool = False
    ) -> None:
        began = time.perf_counter()
        self.case = case
        self.workload = workload
        self.numerics = numerics or PRECISIONS[case.precision]
        self.device = torch.device(case.device)
        if self.device.index is not None:
            torch.cuda.set_device(self.device)
        self.notes: list[str] = []
        # Why torch's profiler cannot see the kernels of this program, if it cannot.
        self.hides_kernels = ""
        self.trains = case.mode == "train"
        self.model = self._build_model()
        self.host_batches = [
            move(batch, "cpu", self.numerics, case.layout)
            for batch in make_batches(workload, case.batch, case.sizes)
        ]
        # What steps read. The batches that `select` copies there stay where steps would read them too.
        self.held = hold(self.host_batches[0], self.device, case.feed)
        self._batches = [hold(batch, self.device, case.feed) for batch in self.host_batches]
        self.feed = make_feed(self.held, self.device, case.feed)
        self.forward = self.model
        self.objective = self._objective
        self._scope = ExitStack()
        if self.trains:
            self._initial = self._weights()
            self.optimizer = self._make_optimizer(capturable)
            self.scaler = self._make_scaler()
        else:
            self._scope.enter_context(torch.inference_mode())
        self.step = self.plain_step()
        self.synchronize()
        self.build_s = time.perf_counter() - began

    def plain_step(self) -> Any:
        """The step in plain Python, around whatever `forward` and `objective` have become."""
        if self.trains:
            return self._train_step()
        forward, feed = self.forward, self.feed
        if self.numerics.autocast is None:
            return lambda: forward(*feed().args)

        def step() -> Any:
            with self.autocast():
                return forward(*feed().args)

        return step

    def autocast(self, cache: bool = True) -> Any:
        kind = self.numerics.autocast
        if kind is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, kind), cache_enabled=cache)

    def clock(self) -> Clock:
        return make_clock(self.device)

    def synchronize(self) -> None:
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    def drain(self) -> bool:
        if self.device.type != "cuda":
            return False
        with torch.cuda.device(self.device):
            torch._C._cuda_synchronize()
        return True

    def allocator(self) -> TorchAllocator | None:
        return TorchAllocator.of(self.device)

    def profile(self, step_s: float) -> StepProfile:
        if self.hides_kernels:
            return StepProfile(net=Net(reason=self.hides_kernels))
        return profile_steps(self.step, self.synchronize, self.device.type, step_s)

    def has_nan(self, result: Any) -> bool:
        # On the device: copying half a gigabyte of logits to the host takes a second.
        return any(bool(torch.isnan(leaf).any()) for leaf in _numbers(result))

    def checksum(self, result: Any) -> float:
        # A sum needs no memory of the result's size, unlike a mask of NaN. In float32, which does not overflow
        # where the half types do; of opposite infinities it is NaN as well.
        sums = [leaf.sum(dtype=torch.float32) for leaf in _numbers(result) if not leaf.is_complex()]
        return float(torch.stack(sums).sum()) if sums else 0.0

    def finished(self, result: Any) -> Any:
        # Only other classes of tensors can compute when they are read.
        numbers = _numbers(result)
        if all(type(leaf) in (torch.Tensor, torch.nn.Parameter) for leaf in numbers):
            return result
        copies = [torch.empty(leaf.shape, dtype=leaf.dtype, device=leaf.device) for leaf in numbers]
        with torch.no_grad():
            for copied, leaf in zip(copies, numbers, strict=True):
                # What `copy_` returns is of the leaf's class again.
                copied.copy_(leaf)
        return copies

    def arrays(self, result: Any) -> list[Any]:
        return [_to_host(leaf) for leaf in tensors_of(result)]

    def select(self, batch: int) -> None:
        # Into the tensors that the step reads already, because a captured graph keeps their addresses.
        with torch.no_grad():
            copy_into(self.held, self._batches[batch], non_blocking=True)

    def disturb(self, attempt: int) -> bool:
        tensors = tensors_of(self.held.args)
        numbers = [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
        with torch.no_grad():
            for tensor in numbers:
                # A change that the mantissa of every precision can hold, and that leaves no interval around zero.
                tensor.mul_(1 - (attempt + 1) / 64)
                # What a result is kept by may not depend on the scale: the samples of the batch change places too.
                if tensor.dim() and tensor.shape[0] > 1:
                    tensor.copy_(tensor.roll(attempt + 1, 0))
            # Whole numbers may be indices, so that they only change places.
            for tensor in [] if numbers else tensors:
                if tensor.dim():
                    tensor.copy_(tensor.roll(attempt + 1, -1))
        return bool(tensors)

    def take(self, batch: Batch) -> None:
        with torch.no_grad():
            copy_into(self.held, move(batch, "cpu", self.numerics, self.case.layout), non_blocking=False)

    def checkpoint(self) -> Arrays:
        arrays = {f"weight/{name}": _whole(tensor) for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            velocity = self.optimizer.state.get(parameter, {}).get("momentum_buffer")
            if velocity is not None:
                arrays[f"momentum/{name}"] = _whole(velocity)
        return arrays

    def restore(self, arrays: Arrays) -> None:
        # In place, because a captured graph keeps the addresses.
        with torch.no_grad():
            for name, tensor in self.model.state_dict().items():
                tensor.copy_(torch.from_numpy(arrays[f"weight/{name}"]).view(tensor.shape))
            for name, parameter in self.model.named_parameters():
                state, saved = self.optimizer.state[parameter], arrays.get(f"momentum/{name}")
                if state.get("momentum_buffer") is None:
                    # Zero is as good as none: v = momentum * 0 + g.
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                state["momentum_buffer"].zero_()
                if saved is not None:
                    state["momentum_buffer"].copy_(torch.from_numpy(saved).view(parameter.shape))

    def perturb_weights(self, seed: int, step: float) -> None:
        """Changes every initial weight by the share `step`, up or down at random; the negative share changes
        each in exactly the opposite direction."""
        generator = torch.Generator().manual_seed(seed)
        for name, tensor in self._initial.items():
            if tensor.is_floating_point():
                sign = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.float64) * 2 - 1
                self._initial[name] = (tensor.double() * (1 + step * sign)).to(tensor.dtype)
        self.rewind()
        # A tensor with two names was changed twice: keep what the model has.
        self._initial = self._weights()

    def perturb_outputs(self, seed: int, step: float) -> None:
        """Changes what every layer returns likewise, the same in every step: as if it summed in another order."""
        for i, layer in enumerate(module for module in self.model.modules() if not list(module.children())):
            layer.register_forward_hook(partial(_perturb_output, seed + (i << 8), step))

    def rewind(self) -> None:
        # In place, because a captured graph keeps the addresses.
        if not self.trains:
            return
        with torch.no_grad():
            for name, tensor in self.model.state_dict().items():
                tensor.copy_(self._initial[name], non_blocking=True)
            # SGD's momentum starts as the first gradient either way: from zero, v = momentum * 0 + g.
            for value in tensors_of(list(self.optimizer.state.values())):
                value.zero_()
            # A step whose gradients overflowed has halved the scale.
            if self.scaler is not None and self.scaler._scale is not None:
                self.scaler._scale.fill_(LOSS_SCALE)

    def close(self) -> None:
        self._scope.close()

    def _build_model(self) -> Any:
        model = self.numerics.convert(self.workload.build(self.case.sizes)).to(self.device)
        if self.case.layout == "channels-last":
            model = model.to(memory_format=torch.channels_last)
        model = model.train(self.trains)
        # Parameters that a workload has frozen (a target network, a detector's first stages) stay frozen in
        # training.
        return model if self.trains else model.requires_grad_(False)

    def _weights(self) -> dict[str, torch.Tensor]:
        """Copies in host memory, which do not count as the device's. They are pinned, because `rewind` copies them
        back between timed blocks."""
        weights = {name: t.detach().to("cpu", copy=True) for name, t in self.model.state_dict().items()}
        return {name: t.pin_memory() for name, t in weights.items()} if self.device.type == "cuda" else weights

    def _make_optimizer(self, capturable: bool) -> Any:
        """torch's default implementation; under fp16 autocast the fused one, with which the loss scaler does not
        wait for the device in every step. `capturable` keeps Adam's step count on the device."""
        options: dict[str, Any] = {"lr": learning_rate(self.workload, self.case)}
        if self.case.precision == "amp-fp16":
            options["fused"] = True
        if self.case.optimizer == "sgd":
            options["momentum"] = self.workload.momentum
        if capturable:
            options["capturable"] = True
        kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        return kinds[str(self.case.optimizer)](parameters, **options)

    def _make_scaler(self) -> Any:
        if self.numerics.autocast != "float16":
            return None
        return torch.amp.GradScaler(self.device.type, init_scale=LOSS_SCALE, growth_interval=1 << 30)

    def _objective(self, args: tuple[Any, ...], target: Any) -> Any:
        return self.workload.loss(self.forward(*args), target)

    def _train_step(self) -> Any:
        objective, feed, optimizer, scaler = self.objective, self.feed, self.optimizer, self.scaler
        amp = self.numerics.autocast is not None

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)
            batch = feed()
            if amp:
                with self.autocast():
                    loss = objective(batch.args, batch.target)
            else:
                loss = objective(batch.args, batch.target)
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            return loss.detach()

        return step

    def state(self) -> Arrays:
        evidence: Arrays = {}
        # In half precision an update is mostly the rounding of the weight, and proves nothing.
        exact = (None, "float32", "float64")
        updates = self.numerics.rounded_to in exact and self.numerics.storage in exact
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                evidence[f"gradient/{name}"] = _to_host(parameter.grad)
            if updates:
                evidence[f"update/{name}"] = _to_host(parameter) - _to_host(self._initial[name])
        return evidence


def _perturb_output(seed: int, step: float, _layer: Any, _inputs: Any, output: Any) -> Any:
    if not isinstance(output, torch.Tensor) or not output.is_floating_point():
        return output
    # NumPy's generator, because torch's may not be used under `vmap`.
    sign = np.random.default_rng(seed).integers(0, 2, tuple(output.shape), dtype=np.int8)
    return output * (1 + step * (torch.from_numpy(sign).to(output.device, output.dtype) * 2 - 1))


def _numbers(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tensors_of(result) if leaf.is_floating_point() or leaf.is_complex()]


def _whole(tensor: Any) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy().copy()


def _to_host(tensor: Any) -> Any:
    tensor = thinned(tensor.detach())
    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        tensor = tensor.float()
    return tensor.cpu().numpy().copy()
