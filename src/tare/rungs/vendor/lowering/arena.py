"""Where in one block of memory every short-lived value lies, so that what lives at the same time never overlaps.

Greedy by size: the largest value first, each at the lowest place that is free for its whole life (Pisarchyk and
Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, section 5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

# What the widest vector loads and cuDNN's kernels want.
ALIGNMENT = 256


@dataclass(frozen=True)
class Life:
    """Bytes needed from the call `first` to the call `last`, both included."""

    bytes: int
    first: int
    last: int


def place(lives: Sequence[Life]) -> tuple[list[int], int]:
    """An offset for each life, and the size of the block."""
    offsets = [0] * len(lives)
    placed: list[int] = []
    total = 0
    for i in sorted(range(len(lives)), key=lambda i: (-lives[i].bytes, lives[i].first)):
        at = 0
        beside = [j for j in placed if lives[j].first <= lives[i].last and lives[i].first <= lives[j].last]
        for j in sorted(beside, key=lambda j: offsets[j]):
            if at + lives[i].bytes <= offsets[j]:
                break
            at = max(at, aligned(offsets[j] + lives[j].bytes))
        offsets[i] = at
        placed.append(i)
        total = max(total, at + lives[i].bytes)
    return offsets, aligned(total)


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
