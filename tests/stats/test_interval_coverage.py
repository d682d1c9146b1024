"""How often the intervals hold the truth, by simulation with fixed seeds: they promise 95 %."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from tare.stats.intervals import median_interval, process_interval

REPEATS = 1000
# Three standard errors of 1000 repeats at 95 % are 2.1 points; seeds are fixed, so this does not flicker.
ENOUGH = 0.935

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]


def lognormal(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return rng.lognormal(0, 0.3, (REPEATS, count))


def bimodal(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Seven of ten samples about 1, three about 1.5; shifted so that the median of the mixture is 1."""
    slow = rng.random((REPEATS, count)) < 0.3
    shift = 0.02 * float(ndtri(0.5 / 0.7))
    return 1 - shift + 0.5 * slow + 0.02 * rng.standard_normal((REPEATS, count))


def drifting(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """From 0.99 to 1.01 under noise of 2 %: symmetric about 1, which is the median of the whole window."""
    return np.linspace(0.99, 1.01, count) + 0.02 * rng.standard_normal((REPEATS, count))


def fast_drifting(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return np.linspace(0.9, 1.1, count) + 0.02 * rng.standard_normal((REPEATS, count))


def autoregressive(phi: float) -> Noise:
    def draw(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        shocks = rng.standard_normal((REPEATS, count)) * np.sqrt(1 - phi**2)
        values = np.empty((REPEATS, count))
        values[:, 0] = rng.standard_normal(REPEATS)
        for i in range(1, count):
            values[:, i] = phi * values[:, i - 1] + shocks[:, i]
        return np.asarray(np.exp(0.1 * values))

    return draw


def share_covered(noise: Noise, count: int) -> float:
    """The share of repeats whose interval holds 1, the true median of every noise here."""
    rows = noise(np.random.default_rng(20260102), count)
    found = [median_interval(row.tolist()) for row in rows]
    return sum(i.low <= 1.0 <= i.high for i in found) / REPEATS


@pytest.mark.parametrize("count", [32, 64, 128, 400])
@pytest.mark.parametrize(
    "noise",
    [lognormal, bimodal, drifting, fast_drifting, autoregressive(0.5), autoregressive(0.7)],
    ids=["lognormal", "bimodal", "drifting", "fast-drifting", "ar-0.5", "ar-0.7"],
)
def test_a_median_interval_covers_as_it_says(noise: Noise, count: int) -> None:
    assert share_covered(noise, count) >= ENOUGH


def test_strong_correlation_is_covered_once_there_is_enough_of_it() -> None:
    assert share_covered(autoregressive(0.9), 400) >= ENOUGH


def test_the_interval_is_not_merely_wide() -> None:
    """Covering is easy for an interval that is always too wide: on long independent series it must be tight."""
    rows = lognormal(np.random.default_rng(3), 400)
    widths = [median_interval(row.tolist()).width for row in rows]
    # The asymptotic half width of a lognormal's median: 1.96 * sqrt(pi / 2) * 0.3 / sqrt(400).
    assert float(np.median(widths)) == pytest.approx(1.96 * np.sqrt(np.pi / 2) * 0.3 / 20, rel=0.15)


@pytest.mark.parametrize("processes", [3, 5, 10])
@pytest.mark.parametrize("shape", ["gaussian", "lognormal"])
def test_a_process_interval_covers_as_it_says(processes: int, shape: str) -> None:
    rng = np.random.default_rng(20260103)
    size = (4 * REPEATS, processes)
    rows = rng.normal(1, 0.05, size) if shape == "gaussian" else rng.lognormal(0, 0.3, size)
    found = [process_interval(row.tolist()) for row in rows]
    assert sum(i.low <= 1.0 <= i.high for i in found) / len(found) == pytest.approx(0.95, abs=0.015)


def test_pooling_processes_lies_where_their_medians_do_not() -> None:
    """Five processes that differ by 5 %, thirty samples of 0.5 % noise in each: DESIGN's rule 7."""
    rng = np.random.default_rng(20260104)
    pooled_holds = medians_hold = 0
    for _ in range(REPEATS):
        samples = rng.lognormal(0, 0.05, (5, 1)) * rng.lognormal(0, 0.005, (5, 30))
        # Pooled samples forget which process they come from.
        pooled = median_interval(rng.permutation(samples.ravel()).tolist())
        by_process = process_interval([median_interval(row.tolist()).mid for row in samples])
        pooled_holds += pooled.low <= 1.0 <= pooled.high
        medians_hold += by_process.low <= 1.0 <= by_process.high
    assert pooled_holds / REPEATS < 0.5
    assert medians_hold / REPEATS >= ENOUGH
