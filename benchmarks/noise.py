"""The noises of a machine on which every simulation of the guard and of bisect runs.

A noise draws what each of `count` consecutive processes adds to the logarithm of its figure, for `rows` machines
that know nothing of each other. A new noise is one function here with `@noise("its name")`: the tables of
benchmarks.guard_power and benchmarks.bisection, and the tests, then include it. Noises are in units of a typical
deviation (a standard deviation, or for Cauchy's what covers as much as one of a Gaussian); `sample` scales them.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Rng = np.random.Generator
Noise = Callable[[Rng, int, int], Values]

# The noise between processes that the published tables use, as a share.
NOISE = 0.02

KINDS: dict[str, Noise] = {}


def noise(name: str) -> Callable[[Noise], Noise]:
    def register(draw: Noise) -> Noise:
        KINDS[name] = draw
        return draw

    return register


def sample(kind: str, rng: Rng, rows: int, count: int, scale: float = NOISE) -> Values:
    """Rows of independent machines, columns of consecutive processes; logarithms."""
    return scale * KINDS[kind](rng, rows, count)


def series(kind: str, rng: Rng, count: int, scale: float = NOISE) -> Values:
    """One machine."""
    row: Values = sample(kind, rng, 1, count, scale)[0]
    return row


@noise("Gaussian")
def gaussian(rng: Rng, rows: int, count: int) -> Values:
    return rng.standard_normal((rows, count))


@noise("heavy-tailed")
def heavy_tailed(rng: Rng, rows: int, count: int) -> Values:
    """Student's t with 3 degrees of freedom, of the same standard deviation."""
    return np.asarray(rng.standard_t(3, (rows, count)) / math.sqrt(3))


@noise("Cauchy")
def cauchy(rng: Rng, rows: int, count: int) -> Values:
    """No mean and no variance; 68 % of the processes are within one unit, as for a Gaussian. Beyond 150 units (a
    figure twenty times as long at 2 %) a process would have run into its time limit."""
    return np.clip(rng.standard_cauchy((rows, count)) / 1.8190, -150, 150)


@noise("outliers")
def outliers(rng: Rng, rows: int, count: int) -> Values:
    """Gaussian, and one process in twenty takes much longer: 30 % at a noise of 2 %."""
    disturbed = rng.random((rows, count)) < 0.05
    return np.asarray(rng.standard_normal((rows, count)) + math.log(1.3) / NOISE * disturbed)


@noise("mixture")
def mixture(rng: Rng, rows: int, count: int) -> Values:
    """Of quiet processes and one in four that scatters six times as much; the standard deviation is the same."""
    loud = rng.random((rows, count)) < 0.25
    scale = 1 / math.sqrt(0.75 + 0.25 * 36)
    return np.asarray(rng.standard_normal((rows, count)) * np.where(loud, 6 * scale, scale))


@noise("bimodal")
def bimodal(rng: Rng, rows: int, count: int) -> Values:
    """Three processes in ten are in a slow mode; the standard deviation is the same."""
    share = 0.3
    gap = 0.97 / math.sqrt(share * (1 - share))
    slow = rng.random((rows, count)) < share
    return np.asarray(gap * slow + 0.24 * rng.standard_normal((rows, count)))


@noise("lasting modes")
def lasting_modes(rng: Rng, rows: int, count: int) -> Values:
    """Two equally frequent modes, two units apart, each of which lasts ten processes on average."""
    switches = rng.random((rows, count)) < 0.1
    switches[:, 0] = rng.random(rows) < 0.5
    slow = np.cumsum(switches, axis=1) % 2
    return np.asarray(2.0 * slow - 1 + 0.24 * rng.standard_normal((rows, count)))


@noise("drifting")
def drifting(rng: Rng, rows: int, count: int) -> Values:
    """Gaussian on a machine that becomes four units (8 % at 2 %) slower or faster in sixty processes."""
    slope = rng.choice([-4.0, 4.0], (rows, 1)) / 60
    return np.asarray(rng.standard_normal((rows, count)) + slope * np.arange(count))


@noise("random walk")
def random_walk(rng: Rng, rows: int, count: int) -> Values:
    """Gaussian on a machine whose speed takes a step of half a unit from process to process."""
    steps = 0.5 * rng.standard_normal((rows, count))
    return np.asarray(rng.standard_normal((rows, count)) + np.cumsum(steps, axis=1))


def _autoregressive(rng: Rng, rows: int, count: int, correlation: float) -> Values:
    values = rng.standard_normal((rows, count))
    shock = math.sqrt(1 - correlation**2)
    for i in range(1, count):
        values[:, i] = correlation * values[:, i - 1] + shock * values[:, i]
    return values


@noise("AR(0.7)")
def autocorrelated(rng: Rng, rows: int, count: int) -> Values:
    return _autoregressive(rng, rows, count, 0.7)


@noise("AR(0.9)")
def persistent(rng: Rng, rows: int, count: int) -> Values:
    return _autoregressive(rng, rows, count, 0.9)


@noise("AR(-0.9)")
def anticorrelated(rng: Rng, rows: int, count: int) -> Values:
    return _autoregressive(rng, rows, count, -0.9)


@noise("alternating")
def alternating(rng: Rng, rows: int, count: int) -> Values:
    """Every second process is slower by two and a half units (5 % at 2 %), as where processes go to two cores or
    two memory nodes in turn."""
    phase = rng.integers(0, 2, (rows, 1))
    slow = (np.arange(count) + phase) % 2
    return np.asarray(2.5 * slow + 0.24 * rng.standard_normal((rows, count)))
