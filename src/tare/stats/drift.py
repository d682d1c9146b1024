"""How the machine drifted while runs were taken one after the other: what to take off each of them.

A run is its candidate's level, plus a drift that walks at random from run to run, plus noise. Levels are free, so
only runs of one candidate at different times say anything of the drift: a search comes back to its ends for that.
How fast it walks is not known; the answers for several paces are averaged by how well they fit (the restricted
likelihood of Patterson and Thompson, 1971), and standing still is one of them.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# The variance of a walk's step in units of the noise's, and how probable each is beforehand.
PACES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
STANDING_STILL = 0.5
# A run farther than this from what was expected of it is drawn in: in scales of a normal distribution.
OUTLYING, NORMAL = 3.0, 1.4826
# What differs by less is the same but for rounding.
SMALLEST = 1e-12


class Drift(NamedTuple):
    """What drifted off at each run, zero on average, and how fast: the walk's variance in units of the noise's."""

    walk: Numbers
    pace: float


def drift(candidates: Sequence[int], values: Sequence[float]) -> Drift:
    """The drift at each run; `values` are logarithms in the order in which they were taken."""
    y = np.asarray(values, dtype=float)
    _, of_run = np.unique(np.asarray(candidates), return_inverse=True)
    levels = np.eye(int(of_run.max()) + 1)[of_run] if y.size else np.zeros((0, 0))
    away = y - levels @ ((levels.T @ y) / levels.sum(axis=0)) if y.size else y
    # Too few runs to say, or none that differs from another of its candidate.
    if y.size - levels.shape[1] < 3 or np.abs(away).max() < SMALLEST:
        return Drift(np.zeros(y.size), 0.0)
    found, rest = _fit(y, levels)
    scale = NORMAL * float(np.median(np.abs(rest)))
    if scale > SMALLEST:
        # One disturbed run is neither drift nor the noise of the others.
        found, _ = _fit(y - rest + np.clip(rest, -OUTLYING * scale, OUTLYING * scale), levels)
    return found


def _fit(y: Numbers, levels: Numbers) -> tuple[Drift, Numbers]:
    """The expected walk, averaged over the paces, and what neither it nor the levels explain."""
    walking, inverse, size = _walks(y.size)
    chances = np.array([STANDING_STILL] + [(1 - STANDING_STILL) / (len(PACES) - 1)] * (len(PACES) - 1))
    # All paces at once, each along the first axis.
    weighed = levels.T @ inverse
    information = weighed @ levels
    level = np.linalg.solve(information, (weighed @ y)[..., np.newaxis])[..., 0]
    off = y - level @ levels.T
    away = np.einsum("pij,pj->pi", inverse, off)
    fits = np.einsum("pij,pj->pi", walking, away)
    fits -= fits.mean(axis=1, keepdims=True)
    freedom = y.size - levels.shape[1]
    spread = np.maximum((off * away).sum(axis=1), SMALLEST**2)
    evidence = np.log(chances) - (size + np.linalg.slogdet(information)[1] + freedom * np.log(spread)) / 2
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    walk = weights @ fits
    steady = y - walk
    level = (levels.T @ steady) / levels.sum(axis=0)
    return Drift(walk, float(weights @ np.asarray(PACES))), steady - levels @ level


@lru_cache(maxsize=64)
def _walks(runs: int) -> tuple[Numbers, Numbers, Numbers]:
    """For each pace, of so many runs: the covariance of the walk, and of that of the runs the inverse and the
    logarithm of the determinant. A search asks again and again, and they are most of the work."""
    times = np.arange(runs)
    walking = np.asarray(PACES)[:, np.newaxis, np.newaxis] * np.minimum.outer(times, times)
    covariance = np.eye(runs) + walking
    return walking, np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1]
