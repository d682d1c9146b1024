"""How often the intervals of a ratio hold the truth with 3 to 20 rounds a side, by simulation with fixed seeds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.guard_power import interleaved
from benchmarks.noise import series
from tare.stats.comparison import compare

REPEATS = 600
# Three standard errors under 95 %.
ENOUGH = 0.923
FULL = [pytest.param(rounds, marks=pytest.mark.full) for rounds in (5, 10, 20)]


def share_covered(kind: str, rounds: int, paired: bool) -> float:
    rng = np.random.default_rng([7, rounds])
    held = 0
    for _ in range(REPEATS):
        if paired:
            ratio = interleaved(kind, rng, rounds, 0.05).compare().ratio
        else:
            a, b = (np.exp(series(kind, rng, rounds)).tolist() for _ in range(2))
            ratio = compare(a, [1.05 * value for value in b]).ratio
        held += ratio.low <= 1.05 <= ratio.high
    return held / REPEATS


@pytest.mark.parametrize("rounds", [3, 6, *FULL])
@pytest.mark.parametrize("kind", ["Gaussian", "heavy-tailed", "drifting", "AR(0.7)"])
def test_pairs_cover_as_they_say(kind: str, rounds: int) -> None:
    assert share_covered(kind, rounds, paired=True) >= ENOUGH


@pytest.mark.parametrize("rounds", [6, *FULL])
@pytest.mark.parametrize("kind", ["bimodal", "outliers", "Cauchy", "AR(-0.9)", "alternating"])
def test_exact_ranks_cover_with_two_modes_outliers_and_a_rhythm(kind: str, rounds: int) -> None:
    assert share_covered(kind, rounds, paired=True) >= ENOUGH


@pytest.mark.parametrize("rounds", [3, 6, *FULL])
@pytest.mark.parametrize("kind", ["Gaussian", "heavy-tailed", "bimodal", "outliers"])
def test_two_samples_cover_as_they_say(kind: str, rounds: int) -> None:
    # Two modes with three to five values a side are no Gaussian: a point or two are lost there.
    allowance = 0.03 if kind == "bimodal" and rounds < 6 else 0.0
    assert share_covered(kind, rounds, paired=False) >= ENOUGH - allowance


def bootstrap(rounds: int, of: Callable[..., Any]) -> tuple[float, float]:
    """How often the percentile bootstrap of a ratio covers, and its typical width beside our interval's."""
    rng = np.random.default_rng(11)
    held, widths = 0, []
    for _ in range(REPEATS):
        a, b = rng.normal(0, 0.02, rounds), rng.normal(0, 0.02, rounds)
        drawn = rng.integers(0, rounds, (2, 400, rounds))
        low, high = np.quantile(of(b[drawn[1]], axis=1) - of(a[drawn[0]], axis=1), (0.025, 0.975))
        held += low <= 0 <= high
        ours = compare(np.exp(a).tolist(), np.exp(b).tolist()).ratio
        widths.append((high - low) / (np.log(ours.high) - np.log(ours.low)))
    return held / REPEATS, float(np.median(widths))


@pytest.mark.full
def test_why_there_is_no_bootstrap_here() -> None:
    """Of means it is too narrow with three to six rounds, of medians with three; of medians with ten it is
    wider than the exact interval. (And neither gives a p-value or knows of pairs.)"""
    assert all(bootstrap(rounds, np.mean)[0] < ENOUGH for rounds in (3, 5, 6))
    assert bootstrap(3, np.median)[0] < ENOUGH
    covered, width = bootstrap(10, np.median)
    assert covered >= ENOUGH
    assert width > 1.05


def test_the_interval_is_not_merely_wide() -> None:
    """At 20 pairs of 2 % noise, the half width is at most a fifth above Student's, 2.09 * 0.02 * sqrt(2 / 20):
    three tests share the level, so that outliers and the order within pairs do not matter."""
    rng = np.random.default_rng(5)
    widths = []
    for _ in range(200):
        ratio = interleaved("Gaussian", rng, 20, 0.0).compare().ratio
        widths.append((np.log(ratio.high) - np.log(ratio.low)) / 2)
    assert float(np.median(widths)) == pytest.approx(2.09 * 0.02 * np.sqrt(2 / 20), rel=0.2)
