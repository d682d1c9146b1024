"""Means of ratios."""

import math
from collections.abc import Sequence


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean that gives 1 for a half and a double; arithmetic means of ratios depend on what divides what
    (Fleming and Wallace, How not to lie with statistics, 1986)."""
    if not ratios or min(ratios) <= 0:
        raise ValueError("a geometric mean needs positive numbers, and at least one")
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
