"""Layers of torch in plain JAX, in the layout and precision of a case."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax, nn

from tare.cases.case import Case
from tare.rungs.torch.numerics import PRECISIONS

Parameters = Mapping[str, Any]
NORM_EPSILON = 1e-5
# How much of the running statistics of a batch norm a training step replaces.
NORM_MOMENTUM = 0.1


class Layers:
    """Under autocast, products and convolutions take their operands in the narrower type, and norms, softmax and
    losses compute in float32, as in torch. `scans`: a loop over time is one operation of XLA."""

    def __init__(self, case: Case, scans: bool) -> None:
        autocast = PRECISIONS[case.precision].autocast
        self._narrow_type = getattr(jnp, autocast) if autocast else None
        self._scans = scans
        self.channels_last = case.layout == "channels-last"
        # Weights of convolutions are (out, in, height, width) or, with channels last, (height, width, in, out).
        self._dimensions = ("NHWC", "HWIO", "NHWC") if self.channels_last else ("NCHW", "OIHW", "NCHW")
        self._spatial = slice(1, 3) if self.channels_last else slice(2, 4)

    def narrow(self, values: Any) -> Any:
        return values.astype(self._narrow_type) if self._narrow_type else values

    def product(self, x: Any, weight: Any) -> Any:
        return self.narrow(x) @ self.narrow(weight)

    def linear(self, weights: Parameters, name: str, x: Any) -> Any:
        return self.product(x, weights[f"{name}.weight"]) + self.narrow(weights[f"{name}.bias"])

    def convolution(
        self, weights: Parameters, name: str, x: Any, stride: int = 1, padding: int = 0, bias: bool = False
    ) -> Any:
        kernel, pads = self.narrow(weights[f"{name}.weight"]), ((padding, padding),) * 2
        x = lax.conv_general_dilated(
            self.narrow(x), kernel, (stride, stride), pads, dimension_numbers=self._dimensions
        )
        return x + self.narrow(self._by_channel(weights[f"{name}.bias"])) if bias else x

    def max_pool(self, x: Any, size: int, stride: int, padding: int = 0) -> Any:
        window, strides, pads = [1] * 4, [1] * 4, [(0, 0)] * 4
        window[self._spatial], strides[self._spatial] = [size] * 2, [stride] * 2
        pads[self._spatial] = [(padding, padding)] * 2
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, pads)

    def mean_of_pixels(self, x: Any) -> Any:
        return x.mean(axis=(1, 2) if self.channels_last else (2, 3))

    def flatten(self, x: Any) -> Any:
        """In torch's order, in which the weights of a following linear layer are."""
        x = x.transpose(0, 3, 1, 2) if self.channels_last else x
        return x.reshape(x.shape[0], -1)

    def batch_norm(self, weights: Parameters, buffers: dict[str, Any], name: str, x: Any, trains: bool) -> Any:
        """With `trains`, replaces the running statistics in `buffers`."""
        values = x.astype(jnp.float32)
        if trains:
            axes = (0, 1, 2) if self.channels_last else (0, 2, 3)
            mean, variance = values.mean(axes), values.var(axes)
            count = x.size // mean.size
            for key, new in (("mean", mean), ("var", variance * (count / (count - 1)))):
                old = buffers[f"{name}.running_{key}"]
                kept = old.astype(jnp.float32) * (1 - NORM_MOMENTUM)
                buffers[f"{name}.running_{key}"] = (kept + lax.stop_gradient(new) * NORM_MOMENTUM).astype(
                    old.dtype
                )
        else:
            mean, variance = (buffers[f"{name}.running_{key}"].astype(jnp.float32) for key in ("mean", "var"))
        scale = weights[f"{name}.weight"].astype(jnp.float32) * lax.rsqrt(variance + NORM_EPSILON)
        shift = weights[f"{name}.bias"].astype(jnp.float32)
        normal = (values - self._by_channel(mean)) * self._by_channel(scale)
        return (normal + self._by_channel(shift)).astype(x.dtype)

    def layer_norm(self, weights: Parameters, name: str, x: Any) -> Any:
        values = x.astype(jnp.float32)
        centred = values - values.mean(-1, keepdims=True)
        normal = centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + NORM_EPSILON)
        weight, bias = (weights[f"{name}.{key}"].astype(jnp.float32) for key in ("weight", "bias"))
        return (normal * weight + bias).astype(x.dtype)

    def loop(self, body: Callable[[Any, Any], tuple[Any, Any]], carry: Any, steps: Any) -> tuple[Any, Any]:
        """`body` maps a state and one of the `steps` to the next state and a result."""
        if self._scans:
            carry, results = lax.scan(body, carry, steps)
            return carry, results
        listed = []
        for values in steps:
            carry, result = body(carry, values)
            listed.append(result)
        return carry, jnp.stack(listed)

    def _by_channel(self, values: Any) -> Any:
        return values if self.channels_last else values[:, None, None]


def cross_entropy(scores: Any, target: Any) -> Any:
    return negative_log_likelihood(nn.log_softmax(scores.astype(jnp.float32)), target)


def negative_log_likelihood(logarithms: Any, target: Any) -> Any:
    return -jnp.take_along_axis(logarithms.astype(jnp.float32), target[:, None], axis=1).mean()


def mean_square(output: Any, target: Any) -> Any:
    return jnp.square(output.astype(jnp.float32) - target.astype(jnp.float32)).mean()


def relu(x: Any) -> Any:
    # Not jax.nn.relu, which is compiled by itself even where the rest runs op by op.
    return jnp.maximum(x, 0)
