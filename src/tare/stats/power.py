"""How many rounds a question needs, and which change a number of rounds can detect."""

import math
from bisect import bisect_left

import numpy as np

from tare.stats.comparison import CONFIDENCE, RANK_TEST_P, Comparison

POWER = 0.95
# The efficiency of a rank test against Student's on Gaussian noise.
RANK_EFFICIENCY = 3 / math.pi
# From this many pairs on they are compared by ranks.
FEWEST_RANKED = math.ceil(math.log2(1 / RANK_TEST_P))
MAX_ROUNDS = 1000
# Rounds are predicted for a truth this many standard errors nearer to the margin than the estimate.
DOUBT = 1.0


def detectable_change(noise: float, rounds: int, level: float, margin: float = 0.0, power: float = POWER) -> float:
    """The smallest change of a ratio that `rounds` interleaved pairs detect with `power`, as a share.

    `noise` is the standard deviation of the logarithm of a process's figure. Detected means p at most `level`
    (one-sided) and an interval outside the margin. Uses Student's quantiles for both errors (the usual, slightly
    cautious approximation to the noncentral t), over the efficiency of the rank test.
    """
    from scipy.special import stdtrit

    if rounds < 2:
        return math.inf
    error = noise * math.sqrt(2 / rounds / RANK_EFFICIENCY)
    spare = float(stdtrit(rounds - 1, power))
    by_p = (float(stdtrit(rounds - 1, 1 - level)) + spare) * error
    by_margin = math.log1p(margin) + (float(stdtrit(rounds - 1, 0.5 + CONFIDENCE / 2)) + spare) * error
    return math.expm1(min(max(by_p, by_margin), 50.0))


def rounds_to_detect(
    change: float,
    noise: float,
    level: float,
    margin: float = 0.0,
    power: float = POWER,
    max_rounds: int = MAX_ROUNDS,
) -> int | None:
    """The fewest pairs that detect a change of this size; None where `max_rounds` would not."""
    # So few are compared by Student's test, which may reach any level; more by ranks, which must be able to.
    few = range(2, min(FEWEST_RANKED, max_rounds + 1))
    many = range(max(FEWEST_RANKED, math.ceil(math.log2(1 / level))), max_rounds + 1)
    for numbers in (few, many):
        position = bisect_left(
            numbers, True, key=lambda rounds: detectable_change(noise, rounds, level, margin, power) <= change
        )
        if position < len(numbers):
            return numbers[position]
    return None


def process_noise(comparison: Comparison) -> float:
    """The noise between processes that an interval implies: the standard deviation of the logarithm."""
    low, high = comparison.ratio.low, comparison.ratio.high
    if not comparison.ratio.sound or low <= 0 or not math.isfinite(high):
        return math.inf
    from scipy.special import stdtrit

    rounds_a, rounds_b = comparison.rounds_a, comparison.rounds_b
    freedom = (rounds_b if comparison.paired else rounds_a + rounds_b - 1) - 1
    half = (math.log(high) - math.log(low)) / 2 / float(stdtrit(max(freedom, 1), 0.975))
    return half / math.sqrt(1 / rounds_a + 1 / rounds_b)


def rounds_to_decide(comparison: Comparison, margin: float, required_p: float) -> int | None:
    """How many more rounds a side would probably decide an undecided comparison. `required_p` is the one-sided p,
    before correction for other tests, at which a change is significant.

    A change must reach that p and have an interval outside the margin; to be the same, the interval must fit
    within the margin. The number is enough even if the truth is one standard error (DOUBT) nearer to the margin
    than the estimate. None where no number under a thousand is enough, and where it cannot be known: an estimate
    that may be noise alone does not predict what more rounds will show.
    """
    from scipy.special import stdtrit

    noise = process_noise(comparison)
    if not math.isfinite(noise):
        return None
    inverse_rounds = 1 / comparison.rounds_a + 1 / comparison.rounds_b
    error = noise * math.sqrt(inverse_rounds)
    size, limit = abs(math.log(comparison.ratio.mid)), math.log1p(margin)
    more = np.arange(1, MAX_ROUNDS + 1)
    rounds = 2 / inverse_rounds + more
    errors = noise * np.sqrt(2 / rounds)
    freedom = rounds - 1 if comparison.paired else 2 * rounds - 2
    enough = abs(size - limit) - DOUBT * error >= stdtrit(freedom, 0.5 + CONFIDENCE / 2) * errors
    if size > limit:
        if comparison.p > 1 - CONFIDENCE:
            return None
        enough &= size - DOUBT * error >= stdtrit(freedom, 1 - required_p) * errors
        enough &= 0.5**rounds <= required_p
    return int(more[enough.argmax()]) if enough.any() else None
