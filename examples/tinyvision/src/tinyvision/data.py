"""Random images in place of a dataset."""

import torch
from torch import Tensor


def batch(size: int = 16) -> tuple[tuple[Tensor, ...], Tensor]:
    """The arguments of the model, and the target of the loss."""
    return (torch.randn(size, 3, 32, 32),), torch.randint(0, 10, (size,))
