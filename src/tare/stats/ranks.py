"""Exact rank tests and their intervals: the signed-rank test for pairs, plain and capped, and the rank-sum test.

A comparison rests on three to twenty processes, for which asymptotic distributions do not hold. Our own because
scipy returns p-values but not the null distributions that the exact intervals need, has no capped signed-rank
test, and its exact tests do not handle ties. Here ties never make a test liberal: pairs use midranks in the exact
count, and for two samples a tie never counts as evidence of a difference.
"""

from bisect import bisect_left
from functools import lru_cache
from math import ceil, comb, inf

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
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
    tail = _signed_rank_tail(tuple(sorted(doubled.tolist())))
    return float(tail[observed])


def walsh_interval(differences: Values, confidence: float) -> tuple[float, float, float]:
    """The pseudo-median of differences with its exact interval, by the ordered Walsh averages.

    Hodges and Lehmann (1963); the rank of the bounds comes from the signed-rank distribution.
    """
    tail = _signed_rank_tail(tuple(2 * rank for rank in range(1, differences.size + 1)))
    return _bounds(np.sort(_walsh_averages(differences)), tail[::2], confidence)


def capped_interval(differences: Values, confidence: float, cap: float) -> tuple[float, float]:
    """The shifts of the differences that the capped test would not reject. Ranks change order only at the Walsh
    averages, so one shift between two neighbouring averages stands for all of them."""
    averages = np.unique(_walsh_averages(differences))
    level = (1 - confidence) / 2
    low = _first_accepted(differences, averages, level, cap)
    return low, -_first_accepted(-differences, -averages[::-1], level, cap)


def rank_sum_p(a: Values, b: Values) -> float:
    """P(b above a in this many pairs or more) if both come from one distribution (Mann and Whitney, 1947)."""
    above = int((b[:, None] > a[None, :]).sum())
    return float(_rank_sum_tail(a.size, b.size)[above])


def shift_interval(a: Values, b: Values, confidence: float) -> tuple[float, float, float]:
    """How far b lies above a, with its exact interval, by the ordered differences (Lehmann, 1963)."""
    shifts = np.sort((b[:, None] - a[None, :]).ravel())
    return _bounds(shifts, _rank_sum_tail(a.size, b.size), confidence)


def smallest_p(rounds_a: int, rounds_b: int, paired: bool) -> float:
    """The smallest one-sided p that so few values can give: every value of b above every value of a."""
    return 0.5**rounds_b if paired else 1 / comb(rounds_a + rounds_b, rounds_a)


def _walsh_averages(differences: Values) -> Values:
    """The mean of every two differences, and of each with itself."""
    i, j = np.triu_indices(differences.size)
    return np.asarray((differences[i] + differences[j]) / 2)


def _first_accepted(differences: Values, averages: Values, level: float, cap: float) -> float:
    """The lowest average above which a shift is not rejected as too low; -inf if none is rejected."""
    middles = (averages[1:] + averages[:-1]) / 2
    # A larger shift leaves fewer differences above it, so P rises with the shift and binary search finds the
    # bound.
    rejected = bisect_left(middles, True, key=lambda shift: signed_rank_p(differences - shift, cap) > level)
    unbounded = signed_rank_p(differences - (averages[0] - 1.0), cap) > level
    return -inf if unbounded else float(averages[rejected])


def _bounds(ordered: Values, tail: Values, confidence: float) -> tuple[float, float, float]:
    """`tail[s]` is P(statistic >= s): the outermost values that would be rejected bound the interval."""
    # By symmetry P(statistic <= k) is P(statistic >= size - k): count how many may be cut off on either side.
    cut = int(np.count_nonzero(tail[::-1] <= (1 - confidence) / 2))
    if cut == 0:
        return -np.inf, float(np.median(ordered)), np.inf
    return float(ordered[cut - 1]), float(np.median(ordered)), float(ordered[ordered.size - cut])


def _midranks(values: Values) -> NDArray[np.int64]:
    """Ranks from 1, doubled so that shared ranks stay whole numbers."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((2 * last - counts + 1)[group], dtype=np.int64)


@lru_cache(maxsize=256)
def _signed_rank_tail(doubled: tuple[int, ...]) -> Values:
    """P(sum >= s) for every s, where each doubled rank counts with probability one half."""
    total = sum(doubled)
    if len(doubled) > MAX_EXACT:
        return _normal_tail(np.arange(total + 1), total / 2, sum(rank**2 for rank in doubled) / 4)
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = (chance[rank:] + chance[:-rank]) / 2
        chance[:rank] /= 2
    return _tail(chance)


@lru_cache(maxsize=256)
def _rank_sum_tail(n: int, m: int) -> Values:
    """P(U >= u) for every u: the partitions counted by the recursion of Mann and Whitney."""
    if n + m > MAX_EXACT:
        return _normal_tail(np.arange(n * m + 1), n * m / 2, n * m * (n + m + 1) / 12)
    # Gaussian binomial coefficients: multiply by (1 - q^(m+i)) and divide by (1 - q^i).
    counts = np.zeros(n * m + 1)
    counts[0] = 1.0
    for i in range(1, n + 1):
        shift = m + i
        if shift < counts.size:
            counts[shift:] = counts[shift:] - counts[: counts.size - shift].copy()
        for k in range(i, counts.size):
            counts[k] += counts[k - i]
    # The distribution is symmetric. Its upper half comes from differences of huge numbers and may round to
    # negative values, so it is copied from the lower half.
    half = (counts.size + 1) // 2
    counts[counts.size - half :] = counts[:half][::-1]
    return _tail(counts / comb(n + m, n))


def _tail(chance: Values) -> Values:
    tail = np.minimum(np.cumsum(chance[::-1])[::-1], 1.0)
    tail[0] = 1.0
    return np.asarray(tail)


def _normal_tail(values: NDArray[np.int64], mean: float, variance: float) -> Values:
    from scipy.special import ndtr

    return np.asarray(ndtr(-(values - 0.5 - mean) / np.sqrt(variance)))
