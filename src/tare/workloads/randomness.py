"""Dropout and its kin can be turned off, so that what a model computes can be compared.

Two runs of a model with dropout differ because they draw different numbers, and no tolerance can tell that from a
fault. `without_dropout` is entered by a process that compares results; the process that measures keeps dropout on.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

# Attributes that hold a probability of dropping something: `dropout`, `attention_dropout`, `hidden_dropout_prob`,
# `attn_pdrop`, `encoder_layerdrop`, timm's `drop_prob`; of modules, and of the configurations of transformers.
_PROBABILITY = re.compile(r"(^|_)(layer|p)?drop")
# Modules outside torch that keep such a probability as `p`.
_KEEP_P = ("StochasticDepth",)
# What the functions of torch.nn.functional end in, whatever probability they are called with.
_FUNCTIONS = tuple(
    f"{kind}dropout{inplace}" for kind in ("", "alpha_", "feature_", "feature_alpha_") for inplace in ("", "_")
)

_is_off: ContextVar[bool] = ContextVar("dropout is off", default=False)


@contextmanager
def without_dropout(wanted: bool = True) -> Iterator[None]:
    """Where `wanted`, models that are built inside have no dropout, and torch's functional dropouts return their
    input."""
    if not wanted:
        yield
        return
    from unittest.mock import patch

    import torch

    # Inside, so that TorchScript finds the types of what it compiles.
    def unchanged(input: torch.Tensor, p: float = 0.5, train: bool = False) -> torch.Tensor:  # noqa: ARG001
        return input

    token = _is_off.set(True)
    with ExitStack() as patches:
        for name in _FUNCTIONS:
            # `_VF` finds its functions by `__getattr__`, so they are created there, and deleted afterwards.
            patches.enter_context(patch.object(torch._VF, name, unchanged, create=True))
            patches.enter_context(patch.object(torch, name, unchanged, create=True))
        try:
            yield
        finally:
            _is_off.reset(token)


def settle_dropout(model: Any) -> Any:
    """The model, whose dropout is turned off inside `without_dropout`."""
    if not _is_off.get():
        return model
    from torch.nn.modules.dropout import _DropoutNd

    for module in model.modules():
        if isinstance(module, _DropoutNd) or type(module).__name__ in _KEEP_P:
            module.p = 0.0
        for holder in (module, getattr(module, "config", None)):
            for name, value in list(getattr(holder, "__dict__", {}).items()):
                if isinstance(value, float) and _PROBABILITY.search(name):
                    setattr(holder, name, 0.0)
    return model
