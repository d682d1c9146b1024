"""Evidence from pairs whose order is drawn: fair if nothing differs, whatever the runs, and strong if something
does."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.stats.ordered_pairs import OrderedPair, OrderedPairTest

Orders = tuple[bool, ...]


def measured_pairs(
    differences: list[float], times: list[int], orders: Orders, change: float = 0.0
) -> OrderedPairTest:
    """Pairs of two candidates that are `change` apart; `differences` are the machine's own, from first to
    second."""
    test = OrderedPairTest()
    for difference, time, high_first in zip(differences, times, orders, strict=True):
        test.add(OrderedPair(0, 1, time, difference + (-change if high_first else change), high_first))
    return test


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 3)), min_size=1, max_size=6))
def test_without_a_difference_the_bets_are_fair_whatever_the_machine_does(runs: list[tuple[float, int]]) -> None:
    """Over all orders that could have been drawn, the wealth is 1 on average: exactly, for any runs."""
    differences = [difference for difference, _ in runs]
    times = list(itertools.accumulate(gap + 2 for _, gap in runs))
    all_orders = list(itertools.product((False, True), repeat=len(runs)))
    tests = [measured_pairs(differences, times, orders) for orders in all_orders]
    assert float(np.mean([test.evidence for test in tests])) == pytest.approx(1, rel=1e-6)
    assert float(np.mean([test.evidence_toward(1) for test in tests])) == pytest.approx(1, rel=1e-6)


def test_a_clear_difference_doubles_the_wealth_with_every_pair() -> None:
    orders = (True, False, False, True, True, False, True, False)
    test = measured_pairs([0.001 * (-1) ** i for i in range(8)], list(range(0, 16, 2)), orders, change=0.1)
    assert test.evidence > 60
    assert test.evidence_toward(1) == pytest.approx(2 * test.evidence, rel=0.01)
    assert test.evidence_toward(-1) < 0.01


def test_an_alternation_larger_than_the_change_does_not_hide_it() -> None:
    """Every second run takes 20 % longer, and the change is 5 %: by the plain differences the order decides
    alone."""
    rng = np.random.default_rng(3)
    times = [2 * i + (i > 7) for i in range(16)]
    alternation = [0.2 * (-1) ** time + rng.normal(0, 0.005) for time in times]
    orders = tuple(bool(order) for order in rng.integers(0, 2, 16))
    assert measured_pairs(alternation, times, orders, change=0.05).evidence > 100
    assert measured_pairs(alternation, times, orders).evidence < 5


def test_one_disturbed_pair_does_not_ruin_the_others() -> None:
    orders = (True, False, False, True, True, False, True, False, True, False)
    machine = [0.0, 0.01, -0.01, 0.0, 3.0, 0.01, 0.0, -0.01, 0.0, 0.01]
    assert measured_pairs(machine, list(range(0, 20, 2)), orders, change=0.05).evidence > 100


def test_pairs_that_are_not_bet_on_leave_the_wealth_alone() -> None:
    test = OrderedPairTest()
    test.add(OrderedPair(0, 9, 0, 0.3, False), bet_on=False)
    assert test.evidence == 1
    test.add(OrderedPair(3, 4, 2, 0.3, False))
    assert test.evidence_toward(1) > 1.5
    assert math.isfinite(test.evidence)
