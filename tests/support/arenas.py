"""What an arena is held against."""

from collections.abc import Sequence

from tare.rungs.vendor.lowering.arena import Life


def floor(lives: Sequence[Life]) -> int:
    """What no placement can go below: the most bytes that are alive at one call."""
    last = max((life.last for life in lives), default=-1)
    return max((sum(x.bytes for x in lives if x.first <= t <= x.last) for t in range(last + 1)), default=0)
