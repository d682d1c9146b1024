"""Do two rungs end with the same accuracy, as far as the noise between seeds can tell?

Both were trained from the same seeds (initial weights, order of batches), so the differences are paired. The rule
is two one-sided tests at 5 % (Schuirmann, 1987): the rungs are equal if Student's 90 % interval of the mean
difference lies within the margin, and differ if it lies beyond it. The margin is the noise of the reference: twice
the standard deviation of its own results over the seeds, but no less than the resolution of a result (one test
image). So "same" is never for want of runs: few runs give a wide interval, which decides nothing. The margin is an
estimate too: with ten runs, rungs whose true difference is two deviations are called the same in one training of
seven, those with three hardly ever (tests/stats/test_equivalence.py).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tare.stats.comparison import Verdict
from tare.stats.intervals import Interval, Values, mean_interval

CONFIDENCE = 0.9
DEVIATIONS = 2.0


class Equivalence(NamedTuple):
    """`difference` is the mean of other - reference over the pairs."""

    difference: Interval
    margin: float
    verdict: Verdict
    pairs: int


def judge_equivalence(
    reference: Sequence[float] | Values, other: Sequence[float] | Values, resolution: float
) -> Equivalence:
    differences = np.asarray(other, np.float64) - np.asarray(reference, np.float64)
    if differences.size < 2:
        middle = float(differences.mean()) if differences.size else math.nan
        return Equivalence(
            Interval(middle, middle, middle, sound=False), resolution, "undecided", differences.size
        )
    margin = max(DEVIATIONS * float(np.std(reference, ddof=1)), resolution)
    interval = mean_interval(differences, CONFIDENCE)
    verdict: Verdict = "undecided"
    if -margin <= interval.low and interval.high <= margin:
        verdict = "same"
    elif interval.low > margin:
        verdict = "higher"
    elif interval.high < -margin:
        verdict = "lower"
    return Equivalence(interval, margin, verdict, differences.size)
