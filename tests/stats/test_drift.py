"""The machine's drift, from runs taken one after the other: known answers, and a search that is not misled."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tare.stats.drift import estimate_drift
from tare.stats.search import MAX_STEADY_RATE, Search

Path = Callable[[int], float]
DRIFTS: dict[str, Path] = {
    "none": lambda _: 0.0,
    "warming": lambda i: 0.1 * (1 - math.exp(-i / 10)),
    "steady": lambda i: 0.004 * i,
    "waves": lambda i: 0.05 * math.sin(2 * math.pi * i / 25),
    "a jump": lambda i: 0.08 * (i >= 14),
}


def test_a_drift_that_two_candidates_share_is_found() -> None:
    """Two candidates in turn, 5 % apart, while the machine slows by 10 %."""
    chance = random.Random(4)
    candidates = [i % 2 for i in range(40)]
    true = np.array([0.0025 * i for i in range(40)])
    values = [0.05 * c + d + chance.gauss(0, 0.002) for c, d in zip(candidates, true, strict=True)]
    assert estimate_drift(candidates, values).offsets == pytest.approx(true - true.mean(), abs=0.004)


def test_an_alternation_that_two_candidates_share_is_found() -> None:
    """In random order, 5 % apart, on a machine that is 5 % slower in every second run."""
    chance = random.Random(4)
    candidates = [chance.randint(0, 1) for _ in range(40)]
    true = np.array([0.025 * (-1) ** i for i in range(40)])
    values = [0.05 * c + d + chance.gauss(0, 0.002) for c, d in zip(candidates, true, strict=True)]
    found = estimate_drift(candidates, values)
    assert found.offsets == pytest.approx(true, abs=0.006)
    assert found.rate < MAX_STEADY_RATE


def test_a_steady_machine_is_left_alone() -> None:
    chance = random.Random(1)
    candidates = [i % 2 for i in range(40)]
    found = estimate_drift(candidates, [0.05 * c + chance.gauss(0, 0.01) for c in candidates])
    assert np.abs(found.offsets).max() < 0.004
    assert found.rate < MAX_STEADY_RATE


def test_one_disturbed_run_is_no_drift() -> None:
    chance = random.Random(2)
    candidates = [i % 2 for i in range(30)]
    values = [0.05 * c + chance.gauss(0, 0.005) for c in candidates]
    values[11] += 0.3
    assert np.abs(estimate_drift(candidates, values).offsets).max() < 0.01


def test_different_candidates_once_each_say_nothing() -> None:
    assert estimate_drift([0, 1, 2, 3], [0.0, 0.1, 0.2, 0.3]).offsets == pytest.approx(np.zeros(4))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-3, 3)), max_size=25), st.floats(-2, 2))
# Most runs are as expected but for rounding, which is no scale.
@example([(1, 1.0), (1, 1.0), (2, 0.0), (2, 0.0), (0, 0.0), (0, 1.0)], 1.0)
def test_a_drift_is_finite_zero_on_average_and_the_same_in_other_units(
    runs: list[tuple[int, float]], shift: float
) -> None:
    candidates, values = [c for c, _ in runs], [v for _, v in runs]
    found = estimate_drift(candidates, values).offsets
    assert found.shape == (len(runs),)
    assert np.isfinite(found).all()
    if runs:
        assert found.mean() == pytest.approx(0, abs=1e-9)
        assert estimate_drift(candidates, [value + shift for value in values]).offsets == pytest.approx(
            found, abs=1e-6
        )


@pytest.mark.parametrize("kind", DRIFTS)
def test_a_search_finds_its_culprit_on_a_machine_that_drifts(kind: str) -> None:
    """64 candidates, a step of 5 %, noise of 1 %; more games, and the same without a correction, in
    benchmarks/bisection.py."""
    right, games = 0, 8
    for seed in range(games):
        chance = random.Random(f"{kind} {seed}")
        culprit = chance.randint(1, 64)
        search = Search(64, seed=seed)
        while isinstance(step := search.next(), int):
            level = math.log(1.05) * (step >= culprit)
            search.add(step, math.exp(level + DRIFTS[kind](search.spent) + chance.gauss(0, 0.01)))
        right += step == "found" and [each.culprit for each in search.state().culprits] == [culprit]
    # 8 games at a true 96 % have more than 2 wrong less than once in two hundred times.
    assert right >= games - 2
