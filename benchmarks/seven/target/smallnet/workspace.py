"""Scratch memory for products."""

from typing import Any

import torch

BYTES = 2**24


def workspace(caller: int) -> Any:  # noqa: ARG001
    """Memory for one product of one caller."""
    return torch.empty(BYTES, dtype=torch.uint8)
