"""torch's optimizers in plain JAX: what a step makes of parameters, state and gradients."""

from typing import Any

import jax
import jax.numpy as jnp

# torch's defaults.
FIRST, SECOND, EPSILON, DECAY = 0.9, 0.999, 1e-8, 0.01


class Sgd:
    """With momentum as torch has it: the velocity starts as the first gradient, v = momentum * v + g."""

    def __init__(self, rate: float, momentum: float) -> None:
        self._rate, self._momentum = rate, momentum

    def initial(self, parameters: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, parameters)

    def update(self, parameters: Any, velocity: Any, gradients: Any) -> tuple[Any, Any]:
        velocity = jax.tree.map(lambda v, g: self._momentum * v + g, velocity, gradients)
        return jax.tree.map(lambda p, v: p - self._rate * v, parameters, velocity), velocity

    def first_gradients(self, velocity: Any) -> Any:
        return velocity


class Adam:
    """Kingma and Ba (2015); with `decay`, AdamW (Loshchilov and Hutter, 2019)."""

    def __init__(self, rate: float, decay: float = 0.0) -> None:
        self._rate, self._decay = rate, decay

    def initial(self, parameters: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return zeros, jax.tree.map(jnp.zeros_like, parameters), jnp.zeros((), jnp.int32)

    def update(self, parameters: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
        first, second, steps = state
        steps = steps + 1
        first = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, first, gradients)
        second = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, second, gradients)
        count = steps.astype(jnp.float32)
        rate, root = self._rate / (1 - FIRST**count), jnp.sqrt(1 - SECOND**count)

        def move(parameter: Any, m: Any, v: Any) -> Any:
            kept = parameter * (1 - self._rate * self._decay)
            return (kept - rate * m / (jnp.sqrt(v) / root + EPSILON)).astype(parameter.dtype)

        return jax.tree.map(move, parameters, first, second), (first, second, steps)

    def first_gradients(self, state: Any) -> Any:
        return jax.tree.map(lambda m: m / (1 - FIRST), state[0])


def make_optimizer(name: str, rate: float, momentum: float) -> Sgd | Adam:
    if name == "sgd":
        return Sgd(rate, momentum)
    return Adam(rate, DECAY if name == "adamw" else 0.0)
