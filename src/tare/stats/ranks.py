"""Exact rank tests and their intervals: the signed-rank test for pairs, plain and capped, and the rank-sum test.

A comparison rests on three to twenty processes, for which asymptotic distributions do not hold. Our own because
scipy has no capped signed-rank test, no interval for either test, and its exact tests do not handle ties. Here
ties never make a test liberal: pairs use midranks in the exact count, and for two samples a tie never counts as
evidence of a difference.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from math import ceil, comb, inf

import numpy as np
from numpy.typing import NDArray

from tare.stats.intervals import Values

# Low, middle and high of a shift.
Bounds = tuple[float, float, float]

# With more values the normal approximation is close enough at any level of interest.
MAX_EXACT = 80


def signed_rank_p(differences: Values, cap: float = 1.0) -> float:
    """P(a rank sum of the positive differences this large or larger) if they are symmetric about zero.

    Wilcoxon's signed-rank test without the zeros. Where the order within each pair was drawn at random, symmetry
    under "no difference" holds by construction, whatever the noise, drift and correlation included. Ranks above
    the share `cap` all count alike: pairs of which one process was disturbed have the largest ranks and carry no
    information, and with a cap a quarter of such pairs does not hide a change in the others.
    """
    signed = differences[differences != 0]
    if signed.size == 0:
        return 1.0
    doubled = np.minimum(_midranks(np.abs(signed)), 2 * ceil(cap * signed.size))
    observed = int(doubled[signed > 0].sum())
    return float(_signed_rank_tail(tuple(sorted(doubled.tolist())))[observed])


def signed_rank_interval(differences: Values, confidence: float, cap: float = 1.0) -> Bounds:
    """The median of the Walsh averages (Hodges and Lehmann, 1963), and the shifts that the test accepts."""
    averages = _walsh_averages(differences)
    return _invert(averages, lambda sign, shift: signed_rank_p(sign * (differences - shift), cap), confidence)


def pseudomedian(values: Values) -> float:
    """The centre of a symmetric distribution, whatever its tails (Hodges and Lehmann, 1963)."""
    return float(np.median(_walsh_averages(values)))


def _walsh_averages(values: Values) -> Values:
    i, j = np.triu_indices(values.size)
    averages: Values = (values[i] + values[j]) / 2
    return averages


def rank_sum_p(a: Values, b: Values) -> float:
    """P(b above a in this many pairs or more) if both come from one distribution (Mann and Whitney, 1947)."""
    return float(_rank_sum_tail(a.size, b.size)[int((b[:, None] > a[None, :]).sum())])


def rank_sum_interval(a: Values, b: Values, confidence: float) -> Bounds:
    """How far b lies above a: the median difference (Lehmann, 1963), and the shifts that the test accepts."""
    shifts = (b[:, None] - a[None, :]).ravel()
    return _invert(shifts, lambda sign, shift: rank_sum_p(sign * a, sign * (b - shift)), confidence)


def smallest_p(rounds_a: int, rounds_b: int, paired: bool) -> float:
    """The smallest one-sided p that so few values can give: every value of b above every value of a."""
    return 0.5**rounds_b if paired else 1 / comb(rounds_a + rounds_b, rounds_a)


def _invert(shifts: Values, p: Callable[[int, float], float], confidence: float) -> Bounds:
    """The interval of the shifts that a test accepts, around their median. `p(1, shift)` tests for a true
    shift above this one, `p(-1, shift)` for one below. Ranks change order only at `shifts`, so a point between two
    neighbours stands for all others between them."""
    ordered = np.unique(shifts)
    middles = (ordered[1:] + ordered[:-1]) / 2
    level = (1 - confidence) / 2
    # The farther out a shift is, the smaller is its p, so binary search finds the outermost that is accepted.
    low = bisect_left(middles, True, key=lambda shift: p(1, shift) > level)
    high = bisect_left(middles[::-1], True, key=lambda shift: p(-1, shift) > level)
    outside = 1 + ordered[-1] - ordered[0]
    if p(1, ordered[0] - outside) > level:
        return -inf, float(np.median(shifts)), inf
    bounds = float(ordered[low]), float(ordered[ordered.size - 1 - high])
    return bounds[0], float(np.clip(np.median(shifts), *bounds)), bounds[1]


def _midranks(values: Values) -> NDArray[np.int64]:
    """Ranks from 1, doubled so that shared ranks stay whole numbers."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((2 * np.cumsum(counts) - counts + 1)[group], dtype=np.int64)


@lru_cache(maxsize=256)
def _signed_rank_tail(doubled: tuple[int, ...]) -> Values:
    """P(sum >= s) for every s, where each doubled rank counts with probability one half."""
    total = sum(doubled)
    if len(doubled) > MAX_EXACT:
        return _normal_tail(total, sum(rank**2 for rank in doubled) / 4)
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = (chance[rank:] + chance[:-rank]) / 2
        chance[:rank] /= 2
    return _tail(chance)


@lru_cache(maxsize=256)
def _rank_sum_tail(n: int, m: int) -> Values:
    """P(U >= u) for every u."""
    if n + m > MAX_EXACT:
        return _normal_tail(n * m, n * m * (n + m + 1) / 12)
    return _tail(_rank_sum_chance(n, m))


@lru_cache(maxsize=4096)
def _rank_sum_chance(n: int, m: int) -> Values:
    """P(U = u) for every u, by whether the largest value is one of b's m or one of a's n."""
    if n == 0 or m == 0:
        return np.ones(1)
    chance = np.zeros(n * m + 1)
    chance[n:] = m / (n + m) * _rank_sum_chance(n, m - 1)
    chance[: (n - 1) * m + 1] += n / (n + m) * _rank_sum_chance(n - 1, m)
    return chance


def _tail(chance: Values) -> Values:
    tail = np.minimum(np.cumsum(chance[::-1])[::-1], 1.0)
    tail[0] = 1.0
    return np.asarray(tail)


def _normal_tail(largest: int, variance: float) -> Values:
    from scipy.special import ndtr

    return np.asarray(ndtr(-(np.arange(largest + 1) - 0.5 - largest / 2) / np.sqrt(variance)))
