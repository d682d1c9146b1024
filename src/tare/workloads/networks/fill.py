"""Fast random weights: a billion normal numbers take ten seconds on one core, in every process.

Large tensors are filled by repeating one block of random numbers. Its length is prime, so that rows or columns of
a weight do not repeat each other, and every tensor begins at its own offset in the block.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# A tensor is large from LARGE elements on, and from LARGE_BEHIND_MANY on once the model has drawn MANY numbers.
LARGE = 1 << 22
MANY, LARGE_BEHIND_MANY = 1 << 26, 1 << 18
BLOCK = (1 << 20) - 3  # a prime

_aten = torch.ops.aten


class QuickRandom(TorchDispatchMode):
    """While active, `normal_` and `uniform_` of large CPU tensors scale a block drawn from the same generator."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[Any, Any] = {}
        self._drawn = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (_aten.normal_.default, _aten.uniform_.default):
            if self._is_large(args[0]):
                return self._fill(func, args[0], *args[1:], **kwargs)
            self._drawn += args[0].numel()
        return func(*args, **kwargs)

    def _is_large(self, tensor: Any) -> bool:
        return bool(
            tensor.numel() >= (LARGE if self._drawn < MANY else LARGE_BEHIND_MANY)
            and tensor.device.type == "cpu"
            and tensor.dtype == torch.float32
            and tensor.is_contiguous()
        )

    def _fill(self, func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        shift, scale = _line(func, *args, **kwargs)
        if func not in self._blocks:
            self._blocks[func] = func(torch.empty(BLOCK), generator=kwargs.get("generator"))
        block = self._blocks[func]
        flat = tensor.view(-1)
        begin, offset = 0, int(torch.randint(BLOCK, ()))
        while begin < flat.numel():
            length = min(BLOCK - offset, flat.numel() - begin)
            torch.mul(block[offset : offset + length], scale, out=flat[begin : begin + length])
            begin, offset = begin + length, 0
        if shift:
            flat.add_(shift)
        return tensor


def _line(func: Any, first: float | None = None, second: float = 1.0, **kwargs: Any) -> tuple[float, float]:
    """The shift and the scale from the standard distribution to the requested one."""
    if func is _aten.normal_.default:
        return kwargs.get("mean", first or 0.0), kwargs.get("std", second)
    low, high = kwargs.get("from", first or 0.0), kwargs.get("to", second)
    return low, high - low
