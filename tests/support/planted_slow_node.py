"""A machine that is not like its peers: the small network that every node measures takes 100 ms more."""

import time
from typing import Any

import planted_naps  # noqa: F401 - the rungs

from tare.workloads.mlp import Perceptron

_build = Perceptron.build


def _build_slowly(self: Perceptron, **sizes: int) -> Any:
    model = _build(self, **sizes)
    model.register_forward_hook(lambda *_: time.sleep(0.1))
    return model


Perceptron.build = _build_slowly  # type: ignore[method-assign, assignment]
