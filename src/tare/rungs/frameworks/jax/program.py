"""The program of the JAX rung: one function for inference, one for a training step, jitted or run op by op."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import TareError, first_line
from tare.measure.parity import thinned
from tare.measure.xla_profiler import XlaProfiler, profile_xla_steps
from tare.protocol.messages import StepProfile
from tare.rungs.base import Arrays, learning_rate
from tare.rungs.frameworks.jax.layers import Layers
from tare.rungs.frameworks.jax.networks import NETWORKS, Call
from tare.rungs.frameworks.jax.optimizers import make_optimizer
from tare.rungs.frameworks.program import FrameworkProgram, HostBatch, host_batch, refuse_placement
from tare.rungs.registry import split_name
from tare.workloads.base import Batch, Workload

# JAX's own default on a GPU is TF32 for float32 products; every rung computes what the precision says.
PRODUCTS = {"tf32": "tensorfloat32"}


class JaxProgram(FrameworkProgram):
    def __init__(self, workload: Workload, case: Case) -> None:
        super().__init__(workload, case)
        self.device = find_device(case)
        jax.config.update("jax_default_device", self.device)
        jax.config.update("jax_default_matmul_precision", PRODUCTS.get(case.precision, "highest"))
        # On the CPU, steps end before they return (tare.rungs.frameworks.jax.rung.prepare_process).
        self.overlaps = self.device.platform != "cpu"
        self._compiles = split_name(case.rung)[1] != "eager"
        self._network = NETWORKS[workload.name]
        self._layers = Layers(case, scans=self._compiles)
        self._type = getattr(jnp, self.numerics.storage)
        # `build_s` is the time of the torch model: bringing its weights to JAX is part of the preparation.
        self._batches = [self._hold(batch) for batch in self.host.batches]
        self._batch = self._batches[0]
        buffers = {name: self._put(values) for name, values in self.host.buffers.items()}
        if self.trains:
            self._optimizer = make_optimizer(str(case.optimizer), learning_rate(workload, case), workload.momentum)
            self._buffers = buffers
            self.rewind()
            self.step = self._training_step()
        else:
            self._state: Any = (self._parameters(), buffers)
            self.step = self._inference_step()
        self._result: Any = None
        verify_placement(case.rung, self._state, self.device)

    def synchronize(self) -> None:
        jax.block_until_ready((self._result, self._state))

    def select(self, batch: int) -> None:
        self._batch = self._batches[batch]

    def rewind(self) -> None:
        if not self.trains:
            return
        # Steps give their buffers to the next step, so that the initial ones have to be copied.
        parameters, buffers = self._parameters(), jax.tree.map(jnp.array, self._buffers)
        self._state = (parameters, buffers, self._optimizer.initial(parameters))
        jax.block_until_ready(self._state)

    def take(self, batch: Batch) -> None:
        self._batch = self._hold(host_batch(batch))

    def checkpoint(self) -> Arrays:
        parameters, buffers, velocity = self._state
        arrays = {f"weight/{name}": self._as_torch(name, array) for name, array in parameters.items()}
        arrays |= {f"weight/{name}": np.asarray(array, np.float32) for name, array in buffers.items()}
        return arrays | {f"momentum/{name}": self._as_torch(name, array) for name, array in velocity.items()}

    def restore(self, arrays: Arrays) -> None:
        weights = {name.removeprefix("weight/"): array for name, array in arrays.items() if name[:1] == "w"}
        parameters = {name: self._put(self._as_jax(name, weights[name])) for name in self.host.parameters}
        buffers = {
            name: self._put(weights[name].astype(buffer.dtype).reshape(buffer.shape))
            for name, buffer in self.host.buffers.items()
        }
        velocity = self._optimizer.initial(parameters)
        velocity |= {
            name: self._put(self._as_jax(name, arrays[f"momentum/{name}"]))
            for name in parameters
            if f"momentum/{name}" in arrays
        }
        self._state = (parameters, buffers, velocity)

    def profile(self, step_s: float) -> StepProfile:
        profiler = XlaProfiler(_start_trace, jax.profiler.stop_trace, _mark_step)
        return profile_xla_steps(self.step, self.synchronize, profiler, self.case.device_type, step_s)

    # Results are looked at on the device: copying half a gigabyte of scores to the host takes a second.

    def checksum(self, result: Any) -> float:
        verify_placement(self.case.rung, result, self.device)
        return float(sum(leaf.sum(dtype=jnp.float32) for leaf in jax.tree.leaves(result)))

    def has_nan(self, result: Any) -> bool:
        return any(bool(jnp.isnan(leaf).any()) for leaf in jax.tree.leaves(result))

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        verify_placement(self.case.rung, result, self.device)
        return [_to_host(thinned(leaf)) for leaf in jax.tree.leaves(result)]

    def current_parameters(self) -> Arrays:
        return {name: self._as_torch(name, array) for name, array in self._state[0].items()}

    def first_gradients(self) -> Arrays:
        gradients = self._optimizer.first_gradients(self._state[2])
        return {name: self._as_torch(name, array) for name, array in gradients.items()}

    def _inference_step(self) -> Any:
        network, layers, sizes = self._network, self._layers, self.case.sizes

        def forward(state: Any, args: tuple[Any, ...]) -> Any:
            parameters, buffers = state
            return network.forward(Call(layers, sizes, parameters, buffers, args, False))

        run = jax.jit(forward) if self._compiles else forward

        def step() -> Any:
            self._result = run(self._state, self._batch.args)
            return self._result

        return step

    def _training_step(self) -> Any:
        network, layers, sizes, optimizer = self._network, self._layers, self.case.sizes, self._optimizer

        def objective(parameters: Any, buffers: Any, batch: HostBatch) -> tuple[Any, Any]:
            replaced = dict(buffers)
            output = network.forward(Call(layers, sizes, parameters, replaced, batch.args, True))
            return network.loss(output, batch.target), replaced

        def train(state: Any, batch: HostBatch) -> tuple[Any, Any]:
            parameters, buffers, moments = state
            (loss, buffers), gradients = jax.value_and_grad(objective, has_aux=True)(parameters, buffers, batch)
            parameters, moments = optimizer.update(parameters, moments, gradients)
            return (parameters, buffers, moments), loss

        run = jax.jit(train, donate_argnums=0) if self._compiles else train

        def step() -> Any:
            self._state, self._result = run(self._state, self._batch)
            return self._result

        return step

    def _parameters(self) -> dict[str, Any]:
        return {name: self._put(self._as_jax(name, array)) for name, array in self.host.parameters.items()}

    def _hold(self, batch: HostBatch) -> Any:
        args = tuple(self._put(self._channels_last(values)) for values in batch.args)
        return HostBatch(args, self._put(batch.target))

    def _put(self, values: NDArray[Any]) -> Any:
        kind = self._type if np.issubdtype(values.dtype, np.floating) else np.int32
        return jax.device_put(jnp.asarray(values, dtype=kind), self.device)

    def _channels_last(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.transpose(0, 2, 3, 1) if self._layers.channels_last and values.ndim == 4 else values

    def _as_jax(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """torch's weights of products are (out, in), those of JAX (in, out)."""
        if array.ndim == 2 and name not in self._network.tables:
            return array.T
        return array.transpose(2, 3, 1, 0) if array.ndim == 4 and self._layers.channels_last else array

    def _as_torch(self, name: str, values: Any) -> NDArray[Any]:
        array = _to_host(values)
        if array.ndim == 2 and name not in self._network.tables:
            return array.T
        return array.transpose(3, 2, 0, 1) if array.ndim == 4 and self._layers.channels_last else array


def _start_trace(folder: str) -> None:
    options = jax.profiler.ProfileOptions()
    # The tracer of Python would slow the host, and nobody looks at its frames.
    options.python_tracer_level = 0
    jax.profiler.start_trace(folder, profiler_options=options)


def _mark_step(number: int) -> Any:
    return jax.profiler.StepTraceAnnotation("tare", step_num=number)


def find_device(case: Case) -> Any:
    index = case.device_index
    try:
        devices = jax.devices(case.device_type)
    except RuntimeError as error:
        raise TareError(f"JAX cannot use {case.device}: {first_line(error)}") from None
    if index >= len(devices):
        raise TareError(f"JAX sees {len(devices)} devices of type {case.device_type}: there is no {case.device}")
    return devices[index]


def verify_placement(rung: str, tree: Any, device: Any) -> None:
    for leaf in jax.tree.leaves(tree):
        if leaf.devices() != {device}:
            raise refuse_placement(rung, device, ", ".join(map(str, leaf.devices())))


def _to_host(values: Any) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values)
    # A view of memory that a later step may reuse would change.
    return np.array(array, np.float32) if array.dtype.kind not in "iub" else array.copy()
