"""How many rounds a question needs, and what change a number of rounds can see."""

import math

import numpy as np

from tare.stats.comparison import CONFIDENCE, RANKS_FROM, Comparison

# The power that is asked for where nothing else is said.
POWER = 0.95
# What a rank test gives away against Student's on Gaussian noise: its efficiency there is 3 / pi.
RANK_EFFICIENCY = 3 / math.pi
# From so many pairs on they are compared by ranks.
FEWEST_RANKED = math.ceil(math.log2(1 / RANKS_FROM))
MOST_ROUNDS = 1000
# Standard errors by which an estimate is not trusted where rounds are foretold from it.
DOUBT = 1.0


def detectable_change(noise: float, rounds: int, level: float, margin: float = 0.0, power: float = POWER) -> float:
    """The smallest change of a ratio that `rounds` interleaved pairs find with `power`, as a share.

    `noise` is the standard deviation of the logarithm of a process's figure. Found means both: p at most `level`
    (one-sided), and an interval that clears the margin. Student's quantiles for both errors (the usual, slightly
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


def rounds_to_find(
    change: float,
    noise: float,
    level: float,
    margin: float = 0.0,
    power: float = POWER,
    most: int = MOST_ROUNDS,
) -> int | None:
    """The fewest pairs that find a change of this size; None where `most` would not do."""
    # So few are compared by Student's test, which may reach any level; more by ranks, which must be able to.
    for few in range(2, min(FEWEST_RANKED, most + 1)):
        if detectable_change(noise, few, level, margin, power) <= change:
            return few
    low, high = max(FEWEST_RANKED, math.ceil(math.log2(1 / level))), most
    if low > most or detectable_change(noise, most, level, margin, power) > change:
        return None
    while low < high:
        middle = (low + high) // 2
        if detectable_change(noise, middle, level, margin, power) <= change:
            high = middle
        else:
            low = middle + 1
    return low


def noise_of(found: Comparison) -> float:
    """The noise of one process that an interval implies: the standard deviation of its logarithm."""
    low, high = found.ratio.low, found.ratio.high
    if not found.ratio.sound or low <= 0 or not math.isfinite(high):
        return math.inf
    from scipy.special import stdtrit

    freedom = (found.rounds_b if found.paired else found.rounds_a + found.rounds_b - 1) - 1
    half = (math.log(high) - math.log(low)) / 2 / float(stdtrit(max(freedom, 1), 0.975))
    return half / math.sqrt(1 / found.rounds_a + 1 / found.rounds_b)


def rounds_to_decide(found: Comparison, margin: float, needed: float) -> int | None:
    """How many more rounds a side would probably decide an undecided comparison. `needed` is the one-sided p,
    before allowing for other tests, at which a change is believed.

    A change must do both, reach that p and clear the margin with its interval; to be the same, the interval must
    fit within the margin. The number is one that would do even if the truth lay a standard error (DOUBT) nearer to
    the margin than the estimate. None where no number under a thousand would, and where one cannot know: an
    estimate that noise alone may have made says nothing of what more rounds will see.
    """
    from scipy.special import stdtrit

    noise = noise_of(found)
    if not math.isfinite(noise):
        return None
    error = noise * math.sqrt(1 / found.rounds_a + 1 / found.rounds_b)
    size, limit = abs(math.log(found.ratio.mid)), math.log1p(margin)
    apart = abs(size - limit) - DOUBT * error
    more = np.arange(1, MOST_ROUNDS + 1)
    rounds = 2 / (1 / found.rounds_a + 1 / found.rounds_b) + more
    errors = noise * np.sqrt(2 / rounds)
    freedom = rounds - 1 if found.paired else 2 * rounds - 2
    enough = apart >= stdtrit(freedom, 0.5 + CONFIDENCE / 2) * errors
    if size > limit:
        if found.p > 1 - CONFIDENCE:
            return None
        enough &= size - DOUBT * error >= stdtrit(freedom, 1 - needed) * errors
        enough &= 0.5**rounds <= needed
    return int(more[enough.argmax()]) if enough.any() else None
