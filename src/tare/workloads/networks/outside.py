"""Gradients that belong to a step of inference, too: forces, or what is learned from a few examples."""

from typing import Any

import torch


def outside(function: Any, *args: Any) -> Any:
    """What a function with `torch.func.grad` inside gives: under inference mode that gradient is zero, and nobody
    is told. A copy of what was made under it is an ordinary tensor."""
    if torch.is_grad_enabled():
        return function(*args)
    with torch.inference_mode(False), torch.no_grad():
        return function(*(arg.clone() for arg in args))
