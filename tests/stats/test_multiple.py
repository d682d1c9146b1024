"""Benjamini and Hochberg's procedure, beside their own definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from tare.stats.multiple import adjusted

ps = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(ps)
def test_it_is_scipys(p_values: list[float]) -> None:
    assert adjusted(p_values) == pytest.approx(list(false_discovery_control(p_values)))


@given(ps, st.floats(0.001, 0.5))
def test_rejecting_is_what_the_definition_rejects(p_values: list[float], level: float) -> None:
    """The largest k with p_(k) <= k q / m, and all that are smaller."""
    ordered = sorted(p_values)
    fitting = [k for k, p in enumerate(ordered, 1) if p * len(ordered) / k <= level]
    cut = ordered[max(fitting) - 1] if fitting else -1.0
    assert [p <= level for p in adjusted(p_values)] == [p <= cut for p in p_values]


@given(ps, st.integers(0, 40))
def test_tests_that_were_not_looked_at_count_as_ones(p_values: list[float], more: int) -> None:
    counted = adjusted(p_values, tests=len(p_values) + more)
    assert counted == pytest.approx(adjusted([*p_values, *[1.0] * more])[: len(p_values)])


def test_no_tests_are_no_trouble() -> None:
    assert adjusted([]) == []
