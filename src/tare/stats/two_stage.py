"""The two stages of a check: suspect quickly, then confirm in fresh processes before anything is reported.

The first stage is lenient, so that it misses little. Suspects are measured again, and the verdict rests on the new
measurements alone. Those do not depend on why the case was chosen, so the error rate is theirs: with the false
discovery rate over the suspects at `level`, the probability of any false alarm in a check without a real change is
at most `level`, however many cases there are.
"""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from tare.stats.comparison import Comparison, Verdict, adjust_p_values, judge
from tare.stats.power import rounds_to_detect
from tare.stats.ranks import rank_sum_p

# One-sided p of the first stage: of the comparison, and of the rank test (which also needs medians beyond the
# margin). One unchanged case in ten is measured again.
SUSPECT_P = 0.1
SUSPECT_RANK_P = 0.25
# The share of the margin that the first comparison's estimate must reach.
SUSPECT_MARGIN = 0.75
# The probability of any false alarm in a check. One in a hundred is promised; this leaves room for chance.
LEVEL = 0.005
# The confirmation is sized to detect this change beside the usual margin, in at most MAX_CONFIRM rounds. A smaller
# resolution gets more rounds, up to MAX_FINE.
RESOLUTION = 0.05
USUAL_MARGIN = 0.02
MAX_CONFIRM = 30
MAX_FINE = 120
# The power of the confirmation: the first stage misses some changes as well.
POWER = 0.99
# With six pairs the true noise is under 1.76 times the estimate nine times in ten (the chi-squared distribution of
# a variance). The confirmation is sized for that.
NOISE_FACTOR = 1.75
# Interim analysis: a confirmation with a p above FUTILE_P after INTERIM_ROUNDS stops, because most suspects are
# noise. That raises no alarm; of changes that 30 rounds would just detect (z is 2.7 after ten) one in 70 is lost.
INTERIM_ROUNDS = 10
FUTILE_P = 0.3
# How surely a confirmation sees an intermittent failure again, if it fails as often as at first.
REPEAT_PROBABILITY = 0.95


def is_suspect(a: Sequence[float], b: Sequence[float], comparison: Comparison, margin: float) -> bool:
    """Whether a first comparison is worth measuring again: near the margin or beyond, and not plainly noise.

    Either of two criteria is enough, since no error rate is controlled here: the comparison itself, or medians
    with a rank test, which a single slow process of the baseline does not blind.
    """
    if comparison.ratio.mid > 1 + SUSPECT_MARGIN * margin and (
        comparison.method == "none" or comparison.p_higher <= SUSPECT_P
    ):
        return True
    if not median(b) > (1 + margin) * median(a):
        return False
    return rank_sum_p(np.asarray(a, dtype=float), np.asarray(b, dtype=float)) <= SUSPECT_RANK_P


def rounds_to_confirm(noise: float, suspects: int, margin: float, resolution: float = RESOLUTION) -> int:
    """Rounds of a confirmation: enough to detect a change of `resolution` among so many suspects, or as many as
    are worth it.

    A larger first estimate does not reduce the number: in simulation that loses a third of true changes of 30 % at
    5 % noise where one process in twenty takes twice as long.
    """
    level = LEVEL / max(suspects, 1)
    max_rounds = max_rounds_to_confirm(margin, resolution)
    # Two more than the fewest with which a rank test can reach that level.
    fewest = math.ceil(math.log2(1 / level)) + 2
    needed = rounds_to_detect(resolution, NOISE_FACTOR * noise, level, margin, POWER, max_rounds)
    return max(fewest, needed or max_rounds)


def rounds_to_repeat_failure(failed: int, rounds: int) -> int:
    """Rounds in which a failure of some of the rounds occurs again at least once, or MAX_CONFIRM:
    1 - (1 - failed / rounds) ** n is REPEAT_PROBABILITY."""
    return min(math.ceil(math.log(1 - REPEAT_PROBABILITY) / math.log(1 - failed / rounds)), MAX_CONFIRM)


def max_rounds_to_confirm(margin: float, resolution: float) -> int:
    """As many times MAX_CONFIRM as give a smaller change the power that RESOLUTION has: the distance beyond the
    margin counts, and an interval narrows with the square root of the rounds."""
    beyond = math.log1p(resolution) - math.log1p(margin)
    if resolution >= RESOLUTION or beyond <= 0:
        return MAX_CONFIRM
    usual = math.log1p(RESOLUTION) - math.log1p(USUAL_MARGIN)
    return min(max(MAX_CONFIRM, math.ceil(MAX_CONFIRM * (usual / beyond) ** 2)), MAX_FINE)


def is_futile(comparison: Comparison) -> bool:
    """Whether a confirmation at its interim analysis is not worth its remaining rounds."""
    return comparison.p_higher > FUTILE_P


def confirm(
    comparisons: Sequence[Comparison], margins: Sequence[float], tests: int | None = None
) -> list[Verdict]:
    """The verdicts of all confirmations together. `tests` is how many tests were made before the suspects were
    chosen, where the confirmation shares data with them (a stored baseline that is not measured again)."""
    p_values = adjust_p_values([comparison.p_higher for comparison in comparisons], tests)
    verdicts: list[Verdict] = []
    for comparison, margin, p in zip(comparisons, margins, p_values, strict=True):
        verdict = judge(comparison, margin, p, LEVEL)
        if verdict != "higher":
            # No alarm depends on the other verdicts, so they are not corrected for many tests.
            uncorrected = judge(comparison, margin)
            verdict = "undecided" if uncorrected == "higher" else uncorrected
        verdicts.append(verdict)
    return verdicts
