"""Convolutions with bias and activation."""

from typing import Any

import torch


def conv_bias_relu(x: Any, weight: Any, bias: Any) -> Any:
    """A three by three convolution of the same size, its bias, and what is below zero cut off."""
    return torch.relu_(torch.conv2d(x, weight, bias, padding=1))
