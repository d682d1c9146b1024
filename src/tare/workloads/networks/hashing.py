"""Reformer's hashing (Kitaev et al., 2020) with rotations made once.

transformers draws them anew in every step, so no two rungs would put the same vectors into the same buckets.
"""

from functools import partial
from typing import Any

import torch


def fix_rotations(model: Any) -> Any:
    """The model with a buffer of random rotations in each of its hashing layers."""
    for module in list(model.modules()):
        if hasattr(module, "_hash_vectors"):
            half = module.num_buckets // 2
            shape = (module.num_attention_heads, module.attention_head_size, module.num_hashes, half)
            module.register_buffer("rotations", torch.randn(shape))
            module._hash_vectors = partial(_hash, module)
    return model


def _hash(module: Any, vectors: Any, hashes: int, *_: Any, **__: Any) -> Any:
    """Section 2 of the paper: h(x) = argmax([xR; -xR]), each round of hashing with buckets of its own."""
    rotated = torch.einsum("bmtd,mdhr->bmhtr", vectors.detach(), module.rotations[:, :, :hashes])
    buckets = torch.cat([rotated, -rotated], dim=-1).argmax(-1)
    rounds = torch.arange(hashes, device=vectors.device).view(1, 1, -1, 1)
    return (buckets + rounds * module.num_buckets).flatten(2, 3)
