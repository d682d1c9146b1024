"""Reformer's hashing (Kitaev et al., 2020) with fixed rotations.

transformers draws new rotations in every step, so two rungs would put the same vectors into different buckets.
"""

from functools import partial
from typing import Any

import torch


def fix_rotations(model: Any) -> Any:
    """Adds a buffer of random rotations to each hashing layer of the model, and returns the model."""
    for module in list(model.modules()):
        if hasattr(module, "_hash_vectors"):
            half = module.num_buckets // 2
            shape = (module.num_attention_heads, module.attention_head_size, module.num_hashes, half)
            module.register_buffer("rotations", torch.randn(shape))
            module._hash_vectors = partial(_hash, module)
    return model


def _hash(module: Any, vectors: Any, hashes: int, *_: Any, **__: Any) -> Any:
    """Section 2 of the paper: h(x) = argmax([xR; -xR]); each round of hashing has its own buckets."""
    rotated = torch.einsum("bmtd,mdhr->bmhtr", vectors.detach(), module.rotations[:, :, :hashes])
    buckets = torch.cat([rotated, -rotated], dim=-1).argmax(-1)
    rounds = torch.arange(hashes, device=vectors.device).view(1, 1, -1, 1)
    return (buckets + rounds * module.num_buckets).flatten(2, 3)
