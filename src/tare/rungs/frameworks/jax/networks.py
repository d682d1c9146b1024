"""The networks that the JAX rung runs: functions of torch's parameters, by their names there."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import nn

from tare.rungs.frameworks.jax.layers import (
    Layers,
    Parameters,
    cross_entropy,
    mean_square,
    negative_log_likelihood,
    relu,
)

Sizes = Mapping[str, int]
# The blocks of each stage of ResNet-50.
STAGES = (3, 4, 6, 3)


class Call(NamedTuple):
    """What the output is computed from. In training, batch norms replace their buffers."""

    layers: Layers
    sizes: Sizes
    weights: Parameters
    buffers: dict[str, Any]
    args: tuple[Any, ...]
    trains: bool


class Network(NamedTuple):
    """`tables` are matrices that are no weights of products, and so are not transposed."""

    forward: Callable[[Call], Any]
    loss: Callable[[Any, Any], Any]
    tables: frozenset[str] = frozenset()


def perceptron(call: Call) -> Any:
    layers, weights = call.layers, call.weights
    (x,) = call.args
    for i in range(call.sizes["depth"]):
        x = relu(layers.linear(weights, str(2 * i), x))
    return layers.linear(weights, str(2 * call.sizes["depth"]), x)


def mnist(call: Call) -> Any:
    layers, weights = call.layers, call.weights
    (x,) = call.args
    for name in ("0", "3"):
        x = relu(layers.max_pool(layers.convolution(weights, name, x, bias=True), 2, 2))
    x = relu(layers.linear(weights, "7", layers.flatten(x)))
    scores = layers.linear(weights, "9", x)
    return nn.log_softmax(scores.astype(jnp.float32), axis=1).astype(scores.dtype)


def lstm(call: Call) -> Any:
    """The outputs of the last layer, and the final states of all layers. The gates are in torch's order."""
    layers, weights = call.layers, call.weights
    (x,) = call.args
    hidden_states, cell_states = [], []
    for layer in range(call.sizes["layers"]):
        inputs, recurrent = weights[f"0.weight_ih_l{layer}"], weights[f"0.weight_hh_l{layer}"]
        bias = layers.narrow(weights[f"0.bias_ih_l{layer}"]) + layers.narrow(weights[f"0.bias_hh_l{layer}"])
        # The inputs of all steps in one product.
        given = layers.product(x, inputs) + bias
        recurrent = layers.narrow(recurrent)

        def step(state: tuple[Any, Any], gates: Any, recurrent: Any = recurrent) -> tuple[tuple[Any, Any], Any]:
            hidden, cell = state
            entry, forget, candidate, exit_ = jnp.split(gates + hidden @ recurrent, 4, axis=-1)
            cell = nn.sigmoid(forget) * cell + nn.sigmoid(entry) * jnp.tanh(candidate)
            hidden = nn.sigmoid(exit_) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zeros = jnp.zeros((x.shape[1], call.sizes["hidden"]), given.dtype)
        (hidden, cell), x = layers.loop(step, (zeros, zeros), given)
        hidden_states.append(hidden)
        cell_states.append(cell)
    return x, (jnp.stack(hidden_states), jnp.stack(cell_states))


def resnet50(call: Call) -> Any:
    layers, weights = call.layers, call.weights
    (x,) = call.args

    def normal(x: Any, name: str) -> Any:
        return layers.batch_norm(weights, call.buffers, name, x, call.trains)

    x = relu(normal(layers.convolution(weights, "conv1", x, 2, 3), "bn1"))
    x = layers.max_pool(x, 3, 2, 1)
    for stage, blocks in enumerate(STAGES, 1):
        for i in range(blocks):
            name = f"layer{stage}.{i}"
            stride = 2 if stage > 1 and i == 0 else 1
            inner = relu(normal(layers.convolution(weights, f"{name}.conv1", x), f"{name}.bn1"))
            inner = layers.convolution(weights, f"{name}.conv2", inner, stride, 1)
            inner = relu(normal(inner, f"{name}.bn2"))
            inner = normal(layers.convolution(weights, f"{name}.conv3", inner), f"{name}.bn3")
            if i == 0:
                x = layers.convolution(weights, f"{name}.downsample.0", x, stride)
                x = normal(x, f"{name}.downsample.1")
            x = relu(inner + x)
    return layers.linear(weights, "fc", layers.mean_of_pixels(x))


def gpt(call: Call) -> Any:
    layers, weights = call.layers, call.weights
    (tokens,) = call.args
    batch, length = tokens.shape
    words = weights["words.weight"]
    x = jnp.take(words, tokens, axis=0) + weights["places.weight"][:length]
    for i in range(call.sizes["layers"]):
        name = f"blocks.{i}"
        parts = layers.linear(weights, f"{name}.attend", layers.layer_norm(weights, f"{name}.first", x))
        parts = parts.reshape(batch, length, 3, call.sizes["heads"], -1)
        mixed = nn.dot_product_attention(parts[:, :, 0], parts[:, :, 1], parts[:, :, 2], is_causal=True)
        x = x + layers.linear(weights, f"{name}.out", mixed.reshape(batch, length, -1))
        wide = layers.linear(weights, f"{name}.feed.0", layers.layer_norm(weights, f"{name}.second", x))
        x = x + layers.linear(weights, f"{name}.feed.2", nn.gelu(wide, approximate=True))
    return layers.product(layers.layer_norm(weights, "norm", x), words.T)


def language_loss(scores: Any, target: Any) -> Any:
    return cross_entropy(scores.reshape(-1, scores.shape[-1]), target.reshape(-1))


NETWORKS = {
    "mlp": Network(perceptron, cross_entropy),
    "mnist_cnn": Network(mnist, negative_log_likelihood),
    "lstm": Network(lstm, lambda output, target: mean_square(output[0], target)),
    "resnet50": Network(resnet50, cross_entropy),
    "nanogpt": Network(gpt, language_loss, frozenset({"words.weight", "places.weight"})),
}
