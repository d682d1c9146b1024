"""How many rounds a question needs, and what change a number of rounds can see."""

import math

from tare.stats.comparison import CONFIDENCE, Comparison

# The power that is asked for where nothing else is said.
POWER = 0.95
# What a rank test gives away against Student's on Gaussian noise: its efficiency there is 3 / pi.
RANK_EFFICIENCY = 3 / math.pi
MOST_ROUNDS = 1000


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
    fewest = max(2, math.ceil(math.log2(1 / level)))
    if fewest > most or detectable_change(noise, most, level, margin, power) > change:
        return None
    low, high = fewest, most
    while low < high:
        middle = (low + high) // 2
        if detectable_change(noise, middle, level, margin, power) <= change:
            high = middle
        else:
            low = middle + 1
    return low


def rounds_to_decide(found: Comparison, margin: float) -> int | None:
    """How many more rounds a side would decide an undecided comparison, if its estimate and its noise stay as
    they are; None where no number under a thousand would (the estimate sits on the margin) or one cannot know."""
    low, middle, high = found.ratio[:3]
    if not found.ratio.sound or low <= 0 or not math.isfinite(high):
        return None
    half = (math.log(high) - math.log(low)) / 2
    wanted = abs(abs(math.log(middle)) - math.log1p(margin))
    rounds = 2 / (1 / found.rounds_a + 1 / found.rounds_b)
    if wanted <= 0 or rounds * (half / wanted) ** 2 > MOST_ROUNDS:
        return None
    needed = math.ceil(rounds * (half / wanted) ** 2 + 1e-9)
    return max(needed - min(found.rounds_a, found.rounds_b), 1)
