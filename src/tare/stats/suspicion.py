"""The two stages of a check: suspect quickly, confirm in fresh processes, and only then say so. Pure arithmetic.

The first stage is lenient, so that hardly anything is missed; what it suspects is measured again, and the verdict
stands on those new measurements alone. They know nothing of why the case was chosen, so the error rate is theirs:
with the false discovery rate over the suspects at `level`, the chance of any false alarm in a night without a true
change is at most `level`, however many cases there are.
"""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from tare.stats.comparison import Comparison, Verdict, judge
from tare.stats.multiple import adjusted
from tare.stats.power import rounds_to_find
from tare.stats.ranks import rank_sum_p

# One-sided p of the first stage, of the comparison and of its second look (which also wants medians beyond the
# margin): one case in ten without any change is measured again in vain.
SUSPECT = 0.1
SECOND_LOOK = 0.25
# The share of the margin that the first comparison's estimate must reach.
SUSPECT_MARGIN = 0.75
# The chance of any false alarm in a night. One in a hundred is promised; this leaves room for chance.
LEVEL = 0.005
# The change that the confirmation is sized to find beside the usual margin, unless a smaller one is asked for, and
# the most rounds for it. A smaller one has more, up to MOST_FINE.
RESOLUTION = 0.05
USUAL_MARGIN = 0.02
MOST_CONFIRM = 30
MOST_FINE = 120
# The power of the confirmation: the first stage misses some as well.
POWER = 0.99
# The noise seen in a few rounds may be luck: with six pairs its true value is under 1.76 times it nine times in
# ten (the chi-squared distribution of a variance). The confirmation is sized for that.
CAUTION = 1.75
# Most suspects are noise, and a confirmation takes long: one whose p is above HOPELESS after LOOK rounds is let
# go. Nobody is accused thereby; of changes that 30 rounds would just find (z is 2.7 after ten) one in 70 is lost.
LOOK = 10
HOPELESS = 0.3
# How surely a confirmation meets what failed in some processes once more, if it fails as often as at first.
MET_AGAIN = 0.95


def is_suspect(a: Sequence[float], b: Sequence[float], found: Comparison, margin: float) -> bool:
    """Whether a first comparison is worth measuring again: near the margin or beyond, and not plainly noise.

    Two looks, because no error is controlled here and nothing should be missed: the comparison itself, and medians
    with a rank test, which a single slow process of the baseline does not blind.
    """
    least = 1 + SUSPECT_MARGIN * margin
    if found.ratio.mid > least and (found.method == "none" or found.higher <= SUSPECT):
        return True
    if not median(b) > (1 + margin) * median(a):
        return False
    return rank_sum_p(np.asarray(a, dtype=float), np.asarray(b, dtype=float)) <= SECOND_LOOK


def rounds_to_confirm(
    noise: float, suspects: int, margin: float, most: int | None = None, resolution: float = RESOLUTION
) -> int:
    """Rounds of a confirmation: enough to find a change of `resolution` among so many suspects, or `most`.

    Not fewer where more was seen at first: simulated, a third of true changes of 30 % at 5 % noise is lost where
    one process in twenty takes twice as long.
    """
    level = LEVEL / max(suspects, 1)
    most = most or most_to_confirm(margin, resolution)
    # Two more than the least with which a rank test can say anything at that level.
    fewest = math.ceil(math.log2(1 / level)) + 2
    wanted = (
        rounds_to_find(resolution, CAUTION * noise, level, margin, POWER, most) if math.isfinite(noise) else None
    )
    return min(max(fewest, wanted or most), max(most, fewest))


def rounds_to_meet_again(failed: int, rounds: int) -> int:
    """Rounds of a confirmation in which what failed in some of its rounds fails again at least once, or the most
    there are: 1 - (1 - failed / rounds) ** n is MET_AGAIN."""
    return min(math.ceil(math.log(1 - MET_AGAIN) / math.log(1 - failed / rounds)), MOST_CONFIRM)


def most_to_confirm(margin: float, resolution: float) -> int:
    """As many times MOST_CONFIRM as give a smaller change the power that RESOLUTION has: what counts is how far it
    is beyond the margin, and an interval narrows with the root of the rounds."""
    beyond = math.log1p(resolution) - math.log1p(margin)
    if resolution >= RESOLUTION or beyond <= 0:
        return MOST_CONFIRM
    usual = math.log1p(RESOLUTION) - math.log1p(USUAL_MARGIN)
    return min(max(MOST_CONFIRM, math.ceil(MOST_CONFIRM * (usual / beyond) ** 2)), MOST_FINE)


def is_hopeless(found: Comparison) -> bool:
    """Whether a confirmation that has come as far as LOOK is not worth its other rounds."""
    return found.higher > HOPELESS


def confirm(
    found: Sequence[Comparison], margins: Sequence[float], tests: int | None = None, level: float = LEVEL
) -> list[Verdict]:
    """The verdicts of confirmations together. `tests` is how many were made before the suspects were chosen, where
    the confirmation shares data with them (a stored baseline that is not measured again)."""
    ps = adjusted([one.higher for one in found], tests)
    return [_verdict(one, margin, p, level) for one, margin, p in zip(found, margins, ps, strict=True)]


def _verdict(found: Comparison, margin: float, p: float, level: float) -> Verdict:
    if judge(found, margin, p, level) == "higher":
        return "higher"
    # Nobody is alarmed by what is left: it is judged on its own.
    alone = judge(found, margin)
    return "undecided" if alone == "higher" else alone
