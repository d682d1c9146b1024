"""Gradients inside a step of inference: forces, or adaptation to a few examples."""

from typing import Any

import torch


def outside(function: Any, *args: Any) -> Any:
    """Calls a function that uses `torch.func.grad` outside of inference mode, in which that gradient would
    silently be zero. The arguments are cloned, because a clone of an inference tensor is an ordinary tensor."""
    if torch.is_grad_enabled():
        return function(*args)
    with torch.inference_mode(False), torch.no_grad():
        return function(*(arg.clone() for arg in args))
