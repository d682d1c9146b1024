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

from tare.stats.comparison import (
    ORDER_SHARE,
    TWO_TESTS,
    TWO_TESTS_FROM,
    Comparison,
    Verdict,
    adjust_p_values,
    judge,
)
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
# Interim analyses: a confirmation with a larger p after so many rounds stops, because most suspects are noise.
# That raises no alarm; of changes that 30 rounds would just detect (z is 2.1 after six and 2.7 after ten) one in
# 20 is lost, of larger ones hardly any.
FUTILE_P = {6: 0.5, 10: 0.25, 15: 0.1, 20: 0.05}
# Two of them also stop a confirmation that is certain already. Each has a share of the level, by which its p-value
# is divided. The first has the fewest rounds whose rank test can reach the level, if all pairs agree. The second
# has EARLY_STEP more, so that a pair may disagree. The final analysis has the rest of the level.
EARLY_SHARES = (0.15, 0.1)
FINAL_SHARE = 1 - sum(EARLY_SHARES)
EARLY_STEP = 2
# The first measurement of a case ends after so many rounds if its change is overwhelming. That raises no alarm: it
# only makes the case a suspect sooner.
OVERWHELMING_ROUNDS = 3
# How surely a confirmation sees an intermittent failure again, if it fails as often as at first.
REPEAT_PROBABILITY = 0.95


def is_suspect(a: Sequence[float], b: Sequence[float], comparison: Comparison, margin: float) -> bool:
    """Whether a first comparison is worth measuring again: near the margin or beyond, and not plainly noise.

    One of three criteria is enough, since no error rate is controlled here: the comparison itself; the same
    without the effect of the order within the pairs; or medians with a rank test, which a single slow process of
    the baseline does not blind.
    """
    for each in (comparison, comparison.in_order):
        beyond = each is not None and each.ratio.mid > 1 + SUSPECT_MARGIN * margin
        if each and beyond and (each.method == "none" or each.p_higher <= SUSPECT_P):
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


def is_overwhelming(a: Sequence[float], b: Sequence[float], comparison: Comparison, margin: float) -> bool:
    """Whether few rounds show a change that is far beyond their noise: all of b lie above all of a, and the
    interval beyond the margin."""
    return min(b) > max(a) and comparison.ratio.sound and comparison.ratio.low > 1 + margin


def early_rounds(metrics: int, suspects: int) -> tuple[int, ...]:
    """The numbers of rounds after which the confirmation of a case may be certain already: so many of its metrics
    are suspected, and so many over all cases. They are all reported if each has at most that share of the level
    (Benjamini and Hochberg's procedure is a step-up procedure)."""
    level = LEVEL * metrics / max(suspects, 1)
    bits = math.log2(1 / (level * EARLY_SHARES[0] * (1 - ORDER_SHARE)))
    if math.ceil(bits) >= TWO_TESTS_FROM:
        bits -= math.log2(TWO_TESTS[0][1])
    return tuple(math.ceil(bits) + EARLY_STEP * number for number in range(len(EARLY_SHARES)))


def interim_rounds(metrics: int, suspects: int, rounds: int) -> list[int]:
    """The numbers of rounds after which a confirmation of so many rounds is looked at."""
    return sorted(look for look in {*FUTILE_P, *early_rounds(metrics, suspects)} if look < rounds)


def is_decided(comparisons: Sequence[Comparison], margins: Sequence[float], suspects: int) -> bool:
    """Whether the confirmation of a case at an interim analysis needs no more rounds: each of its metrics looks
    like noise or is certain."""
    rounds, metrics = comparisons[0].rounds_b, len(comparisons)
    promising = [pair for pair in zip(comparisons, margins, strict=True) if not _is_futile(pair[0])]
    if not promising:
        return True
    level = LEVEL * len(promising) / max(suspects, 1)
    return rounds in early_rounds(metrics, suspects) and all(
        spend(comparison, metrics, suspects).p_higher <= level and comparison.ratio.low > 1 + margin
        for comparison, margin in promising
    )


def _is_futile(comparison: Comparison) -> bool:
    p_values = [comparison.p_higher, comparison.rank_p, comparison.in_order and comparison.in_order.p_higher]
    futile_p = FUTILE_P.get(comparison.rounds_b, 1.0)
    return comparison.balanced and all(p is None or p > futile_p for p in p_values)


def spend(comparison: Comparison, metrics: int, suspects: int) -> Comparison:
    """With the p-value for "higher" of a confirmation that was looked at several times: by the share of the level
    that belongs to this look, its p-values are valid together (Bonferroni)."""
    looks = early_rounds(metrics, suspects)
    share = EARLY_SHARES[looks.index(comparison.rounds_b)] if comparison.rounds_b in looks else FINAL_SHARE
    return comparison._replace(p_higher=min(1.0, comparison.p_higher / share))


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
