"""The posterior of where the level of ordered candidates changes, from noisy runs of a few of them.

A hidden Markov chain: each candidate has a level, and the next one has the same or, rarely, another. Levels lie on
a grid in units of the whole change (0 is the good end, 1 the bad end), and so does the scale of the noise, so the
posterior is summed exactly (Rabiner, A tutorial on hidden Markov models, 1989, for the recursions). Runs scatter
as Student's t with 4 degrees of freedom, so that one disturbed run does not outvote the others.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tare.stats.intervals import Values

GRID = 8
LEVELS = np.arange(-GRID // 2, GRID + GRID // 2 + 1) / GRID
# Smaller changes, as a share of the whole, are not searched for: every ripple would be a culprit.
MIN_SHARE = 0.375
SCALES = np.geomspace(1 / 24, 2, 14)
FREEDOM = 4.0
# The possible results of a further run, for its expected information.
RESULTS = np.linspace(-2, 3, 101)


class Posterior(NamedTuple):
    """Between neighbours of `measured`: the probability of a change, and the joint distribution of their levels.
    `scale` is the expected scale of the noise."""

    measured: list[int]
    change: Values
    joint: list[Values]
    scale: float


def level_posterior(runs: Mapping[int, Sequence[float]], rate: float) -> Posterior:
    """The posterior for runs (in units of the whole change) by candidate; `rate` is the prior probability of a
    change at any one candidate."""
    measured = sorted(runs)
    gaps = np.diff(measured)
    stays = (1 - rate) ** gaps
    jump = (np.abs(LEVELS[:, None] - LEVELS[None, :]) >= MIN_SHARE - 1e-9).astype(float)
    jump /= jump.sum(axis=1, keepdims=True)
    moves = [stay * np.eye(LEVELS.size) + (1 - stay) * jump for stay in stays]
    likelihoods = [_likelihood(np.asarray(runs[c], dtype=float)) for c in measured]
    evidence, joints = _forward_backward(likelihoods, moves)
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    joint = [np.tensordot(weights, by_scale, axes=1) for by_scale in joints]
    change = np.array([1 - float(np.trace(levels)) for levels in joint])
    return Posterior(measured, np.clip(change, 0.0, 1.0), joint, float(weights @ SCALES))


def information(posterior: Posterior, candidates: Sequence[int]) -> Values:
    """The expected information, in nats, of one more run of each candidate about its level (Lindley, 1956)."""
    density = _student(RESULTS[None, :] - LEVELS[:, None], posterior.scale)
    density /= density.sum(axis=1, keepdims=True)
    beliefs = np.array([_belief(posterior, c) for c in candidates])
    mixture = beliefs @ density
    entropy = -np.sum(density * np.log(density), axis=1)
    nats: Values = -np.sum(mixture * np.log(mixture), axis=1) - beliefs @ entropy
    return nats


def _belief(posterior: Posterior, candidate: int) -> Values:
    """The posterior of the level of a candidate, measured or not, between two that are measured."""
    right = int(np.searchsorted(posterior.measured, candidate, side="left"))
    k = max(right - 1, 0)
    joint = posterior.joint[k]
    low, high = posterior.measured[k], posterior.measured[k + 1]
    share = (candidate - low) / (high - low)
    # Without a change both ends share the level; a change is equally likely anywhere between them.
    belief: Values = (1 - share) * joint.sum(axis=1) + share * joint.sum(axis=0)
    belief /= belief.sum()
    return belief


def _likelihood(values: Values) -> Values:
    """Log likelihood of a candidate's runs: a row for each scale of the noise, a column for each level."""
    residuals = values[None, None, :] - LEVELS[None, :, None]
    likelihood: Values = np.log(_student(residuals, SCALES[:, None, None])).sum(axis=2)
    return likelihood


def _student(residuals: Values, scale: Values | float) -> Values:
    """Student's density up to a constant."""
    density: Values = (1 + (residuals / scale) ** 2 / FREEDOM) ** (-(FREEDOM + 1) / 2) / scale
    return density


def _forward_backward(log_likelihoods: list[Values], moves: list[Values]) -> tuple[Values, list[Values]]:
    """For each scale the log evidence, and for each pair of neighbours the joint posterior of their levels."""
    tops = [each.max(axis=1, keepdims=True) for each in log_likelihoods]
    likelihoods = [np.exp(each - top) for each, top in zip(log_likelihoods, tops, strict=True)]
    total: Values = np.sum(tops, axis=0)[:, 0]
    forward = [likelihoods[0] / LEVELS.size]
    for move, likelihood in zip(moves, likelihoods[1:], strict=True):
        step = (forward[-1] @ move) * likelihood
        scale = step.sum(axis=1, keepdims=True)
        total = total + np.log(scale[:, 0])
        forward.append(step / scale)
    backward = np.ones_like(forward[0])
    joints: list[Values] = []
    for k in range(len(moves) - 1, -1, -1):
        after = likelihoods[k + 1] * backward
        joint = forward[k][:, :, None] * moves[k][None] * after[:, None, :]
        joints.append(joint / joint.sum(axis=(1, 2), keepdims=True))
        backward = after @ moves[k].T
        backward = backward / backward.max(axis=1, keepdims=True)
    return total, joints[::-1]
