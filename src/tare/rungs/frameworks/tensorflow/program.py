"""The program of the TensorFlow rung: a Keras model as a function for inference, or with its training step."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import TareError
from tare.measure.parity import thinned
from tare.measure.xla_profiler import XlaProfiler, profile_xla_steps
from tare.protocol.messages import StepProfile
from tare.rungs.base import Arrays, learning_rate
from tare.rungs.frameworks.program import FrameworkProgram, HostBatch, host_batch, refuse_placement
from tare.rungs.frameworks.tensorflow.networks import NETWORKS
from tare.rungs.registry import split_name
from tare.workloads.base import Batch, Workload

POLICIES = {
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "amp-bf16": "mixed_bfloat16",
    "amp-fp16": "mixed_float16",
}
CHANNELS_LAST = "images have their channels last: Keras has no other convolutions on a CPU"


class TensorFlowProgram(FrameworkProgram):
    def __init__(self, workload: Workload, case: Case) -> None:
        super().__init__(workload, case)
        self.device = find_device(case)
        self.overlaps = case.device_type != "cpu"
        keras.mixed_precision.set_dtype_policy(POLICIES[case.precision])
        with tf.device(self.device):
            self._network = NETWORKS[workload.name](case)
            self._links = self._network.parameters
            self._variables = [link.variable() for link in self._links]
            # `build_s` is the time of the torch model: bringing its weights to Keras is part of the preparation.
            self._batches = [self._hold(batch) for batch in self.host.batches]
            if self.trains:
                rate = learning_rate(workload, case)
                self._optimizer = keras.optimizers.SGD(rate, workload.momentum)
                self._optimizer.build(self._variables)
            self._load()
        self._batch = self._batches[0]
        if case.layout == "contiguous" and any(values.ndim == 4 for values in self.host.batches[0].args):
            self.notes = (CHANNELS_LAST,)
        self._verify_placement([variable.value for variable in self._variables])
        self.step = self._step(split_name(case.rung)[1])

    def synchronize(self) -> None:
        if self.overlaps:
            tf.test.experimental.sync_devices()

    def profile(self, step_s: float) -> StepProfile:
        experimental = tf.profiler.experimental
        profiler = XlaProfiler(experimental.start, experimental.stop, _mark_step)
        return profile_xla_steps(self.step, self.synchronize, profiler, self.case.device_type, step_s)

    def select(self, batch: int) -> None:
        self._batch = self._batches[batch]

    def rewind(self) -> None:
        if self.trains:
            self._load()
            for velocity in self._optimizer.momentums:
                velocity.assign(tf.zeros_like(velocity.value))

    def take(self, batch: Batch) -> None:
        self._batch = self._hold(host_batch(batch))

    # Results are looked at on the device: copying half a gigabyte of scores to the host takes a second.

    def checksum(self, result: Any) -> float:
        self._verify_placement(result)
        return float(sum(float(tf.reduce_sum(tf.cast(leaf, tf.float32))) for leaf in tf.nest.flatten(result)))

    def has_nan(self, result: Any) -> bool:
        return any(bool(tf.reduce_any(tf.math.is_nan(leaf))) for leaf in tf.nest.flatten(result))

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        self._verify_placement(result)
        leaves = [_to_host(leaf) for leaf in tf.nest.flatten(result)]
        return [thinned(leaf) for leaf in (leaves if self.trains else self._network.results(leaves))]

    def current_parameters(self) -> Arrays:
        initial = self.host.parameters
        named: Arrays = {}
        for link, variable in zip(self._links, self._variables, strict=True):
            moved = link.to_torch(_to_host(variable) - link.to_keras([initial[name] for name in link.names]))
            named |= {name: initial[name] + moved / len(link.names) for name in link.names}
        return named

    def first_gradients(self) -> Arrays:
        """The velocity after a first step is the gradient times the learning rate, with the other sign."""
        rate = float(self._optimizer.learning_rate)
        named: Arrays = {}
        for link, velocity in zip(self._links, self._optimizer.momentums, strict=True):
            gradient = link.to_torch(_to_host(velocity)) / (-rate * len(link.names))
            named |= dict.fromkeys(link.names, gradient)
        return named

    def _step(self, variant: str) -> Any:
        run = self._train if self.trains else self._infer
        if variant != "eager":
            run = tf.function(run, jit_compile=variant == "xla")
        place = self.device

        def step() -> Any:
            with tf.device(place):
                return run(*self._batch)

        return step

    def _infer(self, args: Any, _target: Any) -> Any:
        return self._network.model(args, training=False)

    def _train(self, args: Any, target: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self._network.loss(self._network.model(args, training=True), target)
        gradients = tape.gradient(loss, [variable.value for variable in self._variables])
        self._optimizer.apply(self._for_all_of(gradients), self._variables)
        return loss

    def _for_all_of(self, gradients: list[Any]) -> list[Any]:
        """A variable that is the sum of two tensors of torch moves by the gradients of both."""
        return [
            gradient * len(link.names) if len(link.names) > 1 else gradient
            for link, gradient in zip(self._links, gradients, strict=True)
        ]

    def _load(self) -> None:
        """The initial weights and running statistics."""
        named = self.host.parameters | self.host.buffers
        for link in (*self._links, *self._network.buffers):
            link.variable().assign(link.to_keras([named[name] for name in link.names]))

    def _hold(self, batch: HostBatch) -> HostBatch:
        (args,) = (self._put(values) for values in batch.args)
        return HostBatch(args, self._put(batch.target))

    def _put(self, values: NDArray[Any]) -> Any:
        array = np.ascontiguousarray(self._network.batch_of(values))
        is_float = np.issubdtype(values.dtype, np.floating)
        return tf.constant(array, keras.config.dtype_policy().variable_dtype if is_float else tf.int32)

    def _verify_placement(self, tree: Any) -> None:
        for leaf in tf.nest.flatten(tree):
            if not leaf.device.endswith(self.device):
                raise refuse_placement(self.case.rung, self.device, leaf.device)


def _mark_step(number: int) -> Any:
    return tf.profiler.experimental.Trace("tare", step_num=number, _r=1)


def find_device(case: Case) -> str:
    """As TensorFlow names it at the end of the names of its tensors."""
    kind = {"cpu": "CPU", "cuda": "GPU"}[case.device_type]
    devices = tf.config.list_logical_devices(kind)
    if case.device_index >= len(devices):
        raise TareError(f"TensorFlow sees {len(devices)} devices of type {kind}: there is no {case.device}")
    return f"device:{kind}:{case.device_index}"


def _to_host(value: Any) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind not in "iub" else array
