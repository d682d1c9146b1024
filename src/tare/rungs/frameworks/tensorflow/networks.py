"""The networks that the TensorFlow rung runs: Keras models, with torch's names for their variables."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers, ops
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.rungs.frameworks.tensorflow.rung import MODES
from tare.rungs.registry import split_name

NORM_EPSILON = 1e-5
# How much of the running statistics of a batch norm a training step keeps.
NORM_MOMENTUM = 0.9
# The blocks and the width of each stage of ResNet-50.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))

Permutation = tuple[int, ...] | None
# torch's weights of products are (out, in), those of Keras (in, out); kernels are OIHW and HWIO.
PRODUCT, KERNEL = (1, 0), (2, 3, 1, 0)


class Link(NamedTuple):
    """A variable of Keras, and the tensors of torch that it stands for. Where these are two (the biases of an
    LSTM), it is their sum, and each of them gets its gradient."""

    variable: Callable[[], Any]
    names: tuple[str, ...]
    permutation: Permutation = None

    def to_keras(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        total: NDArray[Any] = np.sum(arrays, axis=0)
        return total.transpose(self.permutation) if self.permutation else total

    def to_torch(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.transpose(np.argsort(self.permutation)) if self.permutation else array


class KerasNetwork(NamedTuple):
    """`batch_of` turns an array of the batch into what the model takes, and `results` the outputs of the model
    into those of torch: a Keras model is batch-major, and images have their channels last."""

    model: Any
    parameters: list[Link]
    buffers: list[Link]
    loss: Callable[[Any, Any], Any]
    batch_of: Callable[[NDArray[Any]], NDArray[Any]] = lambda values: values
    results: Callable[[list[NDArray[Any]]], list[NDArray[Any]]] = lambda values: values


class Builder:
    """Makes layers by the names that they have in torch, and keeps which variable is which parameter. Their values
    come later: drawing them takes time, and not every initialiser knows every type."""

    def __init__(self) -> None:
        self.parameters: list[Link] = []
        self.buffers: list[Link] = []

    def dense(self, name: str, units: int, x: Any) -> Any:
        return self._with_bias(layers.Dense(units, kernel_initializer="zeros"), name, PRODUCT, True)(x)

    def convolution(
        self, name: str, filters: int, size: int, x: Any, stride: int = 1, padding: int = 0, bias: bool = False
    ) -> Any:
        if padding:
            # Keras' own padding is not symmetric where there is a stride.
            x = layers.ZeroPadding2D(padding)(x)
        layer = layers.Conv2D(filters, size, stride, use_bias=bias, kernel_initializer="zeros")
        return self._with_bias(layer, name, KERNEL, bias)(x)

    def batch_norm(self, name: str, x: Any) -> Any:
        layer = layers.BatchNormalization(momentum=NORM_MOMENTUM, epsilon=NORM_EPSILON)
        self.parameters.append(Link(lambda: layer.gamma, (f"{name}.weight",)))
        self.parameters.append(Link(lambda: layer.beta, (f"{name}.bias",)))
        self.buffers.append(Link(lambda: layer.moving_mean, (f"{name}.running_mean",)))
        self.buffers.append(Link(lambda: layer.moving_variance, (f"{name}.running_var",)))
        return layer(x)

    def lstm(self, name: str, number: int, units: int, mode: int | None, x: Any) -> list[Any]:
        """Its outputs at all times, and its last hidden and cell states. The gates are in torch's order."""
        layer = layers.LSTM(
            units,
            return_sequences=True,
            return_state=True,
            kernel_initializer="zeros",
            recurrent_initializer="zeros",
            implementation=mode or 2,
            use_cudnn="auto" if mode is None else False,
        )
        cell = layer.cell
        self.parameters.append(Link(lambda: cell.kernel, (f"{name}.weight_ih_l{number}",), PRODUCT))
        self.parameters.append(Link(lambda: cell.recurrent_kernel, (f"{name}.weight_hh_l{number}",), PRODUCT))
        names = (f"{name}.bias_ih_l{number}", f"{name}.bias_hh_l{number}")
        self.parameters.append(Link(lambda: cell.bias, names))
        outputs: list[Any] = layer(x)
        return outputs

    def _with_bias(self, layer: Any, name: str, permutation: Permutation, bias: bool) -> Any:
        self.parameters.append(Link(lambda: layer.kernel, (f"{name}.weight",), permutation))
        if bias:
            self.parameters.append(Link(lambda: layer.bias, (f"{name}.bias",)))
        return layer


def perceptron(case: Case) -> KerasNetwork:
    builder, sizes = Builder(), case.sizes
    x = entry = keras.Input((sizes["features"],), batch_size=case.batch)
    for i in range(sizes["depth"]):
        x = layers.ReLU()(builder.dense(str(2 * i), sizes["width"], x))
    x = builder.dense(str(2 * sizes["depth"]), sizes["classes"], x)
    return _network(builder, entry, x, cross_entropy)


def mnist(case: Case) -> KerasNetwork:
    builder = Builder()
    x = entry = keras.Input((28, 28, 1), batch_size=case.batch)
    for name, filters in (("0", 10), ("3", 20)):
        x = layers.ReLU()(layers.MaxPooling2D(2)(builder.convolution(name, filters, 5, x, bias=True)))
    # The weights of the linear layer are in torch's order, which has the channels first.
    x = layers.Flatten()(layers.Permute((3, 1, 2))(x))
    x = layers.ReLU()(builder.dense("7", 50, x))
    x = layers.Activation("log_softmax", dtype="float32")(builder.dense("9", case.sizes["classes"], x))
    return _network(builder, entry, x, negative_log_likelihood)._replace(batch_of=channels_last)


def lstm(case: Case) -> KerasNetwork:
    builder, sizes = Builder(), case.sizes
    mode = MODES.get(split_name(case.rung)[1])
    x = entry = keras.Input((sizes["steps"], sizes["input"]), batch_size=case.batch)
    states = []
    for layer in range(sizes["layers"]):
        x, hidden, cell = builder.lstm("0", layer, sizes["hidden"], mode, x)
        states += [hidden, cell]

    def results(values: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [time_major(values[0]), np.stack(values[1::2]), np.stack(values[2::2])]

    network = _network(builder, entry, [x, *states], lambda outputs, target: mean_square(outputs[0], target))
    return network._replace(batch_of=time_major, results=results)


def resnet50(case: Case) -> KerasNetwork:
    builder, sizes = Builder(), case.sizes
    resolution = sizes["resolution"]
    x = entry = keras.Input((resolution, resolution, sizes["channels"]), batch_size=case.batch)
    x = layers.ReLU()(builder.batch_norm("bn1", builder.convolution("conv1", 64, 7, x, 2, 3)))
    # What is pooled is not negative: zeros do for padding.
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for stage, (blocks, width) in enumerate(STAGES, 1):
        for i in range(blocks):
            name, stride = f"layer{stage}.{i}", 2 if stage > 1 and i == 0 else 1
            inner = builder.batch_norm(f"{name}.bn1", builder.convolution(f"{name}.conv1", width, 1, x))
            inner = builder.convolution(f"{name}.conv2", width, 3, layers.ReLU()(inner), stride, 1)
            inner = layers.ReLU()(builder.batch_norm(f"{name}.bn2", inner))
            inner = builder.batch_norm(f"{name}.bn3", builder.convolution(f"{name}.conv3", 4 * width, 1, inner))
            if i == 0:
                x = builder.convolution(f"{name}.downsample.0", 4 * width, 1, x, stride)
                x = builder.batch_norm(f"{name}.downsample.1", x)
            x = layers.ReLU()(layers.Add()([inner, x]))
    x = builder.dense("fc", sizes["classes"], layers.GlobalAveragePooling2D()(x))
    return _network(builder, entry, x, cross_entropy)._replace(batch_of=channels_last)


def _network(builder: Builder, entry: Any, output: Any, loss: Callable[[Any, Any], Any]) -> KerasNetwork:
    return KerasNetwork(keras.Model(entry, output), builder.parameters, builder.buffers, loss)


def cross_entropy(scores: Any, target: Any) -> Any:
    return ops.mean(
        keras.losses.sparse_categorical_crossentropy(target, ops.cast(scores, "float32"), from_logits=True)
    )


def negative_log_likelihood(logarithms: Any, target: Any) -> Any:
    return -ops.mean(ops.take_along_axis(logarithms, target[:, None], axis=1))


def mean_square(output: Any, target: Any) -> Any:
    return ops.mean(ops.square(ops.cast(output, "float32") - ops.cast(target, "float32")))


def channels_last(values: NDArray[Any]) -> NDArray[Any]:
    return values.transpose(0, 2, 3, 1) if values.ndim == 4 else values


def time_major(values: NDArray[Any]) -> NDArray[Any]:
    """Batch and time in each other's place."""
    return values.swapaxes(0, 1)


NETWORKS: dict[str, Callable[[Case], KerasNetwork]] = {
    "mlp": perceptron,
    "mnist_cnn": mnist,
    "lstm": lstm,
    "resnet50": resnet50,
}
