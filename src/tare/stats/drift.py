"""The drift of the machine while runs are taken one after the other, to be subtracted from each of them.

A run is its candidate's level, plus the machine's offset, plus noise. The offset follows a random walk from run to
run, or it alternates (its correlation with the next run's is negative), or there is none. Levels are free
parameters, so only runs of one candidate at different times carry information about the offset: a search returns
to its ends for that. Kind and size of the offset are unknown. The results for several are averaged by how well
they fit (the restricted likelihood of Patterson and Thompson, 1971).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tare.stats.intervals import Values

# The variance of one step of the walk, in variances of the noise.
RATES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# An alternating offset: its correlation from run to run, and its variance, in variances of the noise.
ALTERNATION, VARIANCES = -0.95, (3.0, 10.0, 30.0, 100.0)
# The prior probabilities of no offset, of all rates of a walk, and of all variances of an alternation.
NO_DRIFT, WALKS, ALTERNATING = 0.5, 0.4, 0.1
PRIORS = np.array(
    [NO_DRIFT] + [WALKS / (len(RATES) - 1)] * (len(RATES) - 1) + [ALTERNATING / len(VARIANCES)] * len(VARIANCES)
)
# A run farther than this from its expected value, in scales of a normal distribution, is clipped.
OUTLYING, NORMAL = 3.0, 1.4826
# Smaller differences are rounding.
SMALLEST = 1e-12


class Drift(NamedTuple):
    """The offset of each run, zero on average, and the expected rate (see RATES)."""

    offsets: Values
    rate: float


def estimate_drift(candidates: Sequence[int], values: Sequence[float] | Values) -> Drift:
    """The drift at each run; `values` are logarithms in the order in which they were taken."""
    y = np.asarray(values, dtype=float)
    _, of_run = np.unique(np.asarray(candidates), return_inverse=True)
    levels = np.eye(int(of_run.max()) + 1)[of_run] if y.size else np.zeros((0, 0))
    residuals = y - levels @ ((levels.T @ y) / levels.sum(axis=0)) if y.size else y
    # Too few runs, or no run differs from another of its candidate.
    if y.size - levels.shape[1] < 3 or np.abs(residuals).max() < SMALLEST:
        return Drift(np.zeros(y.size), 0.0)
    drift, rest = _fit(y, levels)
    scale = NORMAL * float(np.median(np.abs(rest)))
    if scale > SMALLEST:
        # One disturbed run is neither drift nor the noise of the others.
        drift, _ = _fit(y - rest + np.clip(rest, -OUTLYING * scale, OUTLYING * scale), levels)
    return drift


def _fit(y: Values, levels: Values) -> tuple[Drift, Values]:
    """The expected drift, averaged over the rates, and the residuals of drift and levels."""
    covariance, inverse, log_determinant = _offsets(y.size)
    # All kinds of offsets at once, along the first axis.
    weighted_levels = levels.T @ inverse
    information = weighted_levels @ levels
    level = np.linalg.solve(information, (weighted_levels @ y)[..., np.newaxis])[..., 0]
    residuals = y - level @ levels.T
    weighted = np.einsum("pij,pj->pi", inverse, residuals)
    offsets_by_kind = np.einsum("pij,pj->pi", covariance, weighted)
    offsets_by_kind -= offsets_by_kind.mean(axis=1, keepdims=True)
    freedom = y.size - levels.shape[1]
    squares = np.maximum((residuals * weighted).sum(axis=1), SMALLEST**2)
    evidence = np.log(PRIORS)
    evidence -= (log_determinant + np.linalg.slogdet(information)[1] + freedom * np.log(squares)) / 2
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    offsets = weights @ offsets_by_kind
    corrected = y - offsets
    level = (levels.T @ corrected) / levels.sum(axis=0)
    return Drift(offsets, float(weights[: len(RATES)] @ np.asarray(RATES))), corrected - levels @ level


@lru_cache(maxsize=64)
def _offsets(runs: int) -> tuple[Values, Values, Values]:
    """For each kind of offset, for so many runs: its covariance, and the inverse and the log determinant of the
    covariance of the runs. They are most of the work, and a search asks for them repeatedly."""
    times = np.arange(runs)
    walk = np.minimum.outer(times, times)
    alternation = ALTERNATION ** np.abs(np.subtract.outer(times, times))
    offsets = np.concatenate([np.multiply.outer(RATES, walk), np.multiply.outer(VARIANCES, alternation)])
    covariance = np.eye(runs) + offsets
    return offsets, np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1]
