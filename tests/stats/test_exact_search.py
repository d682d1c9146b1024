"""Bisection of counts: halving finds every step, whatever breaks between."""

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.stats.search import ExactSearch


def play(levels: list[float], broken: Collection[int] = (), most: int | None = None) -> tuple[str, ExactSearch]:
    search = ExactSearch(len(levels) - 1, most)
    while isinstance(step := search.next(), int):
        if step in broken:
            search.skip(step)
        else:
            search.add(step, levels[step])
    return step, search


def test_64_candidates_take_ten_runs() -> None:
    """Two ends, six halvings, and a second run of the culprit and of its parent."""
    verdict, search = play([0.0] * 41 + [16.0] * 24)
    (culprit,) = search.state().culprits
    assert (verdict, culprit.parent, culprit.culprit) == ("found", 40, 41)
    assert search.spent <= 10


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.data())
def test_every_culprit_named_is_one(levels: list[int], data: st.DataObject) -> None:
    inner = st.sets(st.integers(1, len(levels) - 1)) if len(levels) > 2 else st.just(set())
    broken = data.draw(inner) - {0, len(levels) - 1}
    rising = [float(sum(levels[: i + 1])) for i in range(len(levels))]
    verdict, search = play(rising, broken)
    found = search.state().culprits
    assert verdict == ("found" if rising[-1] > rising[0] else "no-difference")
    for culprit in found:
        assert rising[culprit.culprit] > rising[culprit.parent]
        assert all(c in broken for c in range(culprit.parent + 1, culprit.culprit))
    # Figures that only rise hide nothing between equals: all of the rise is accounted for.
    assert sum(rising[c.culprit] - rising[c.parent] for c in found) == rising[-1] - rising[0]


def test_a_count_that_changes_between_runs_is_not_exact() -> None:
    search = ExactSearch(1)
    for candidate, value in ((0, 5.0), (1, 7.0), (0, 5.0), (1, 8.0)):
        search.add(candidate, value)
    assert search.next() == "not-exact"


def test_it_gives_up_after_the_runs_allowed_and_at_a_broken_end() -> None:
    assert play([0.0] * 20 + [1.0] * 20, most=4)[0] == "undecided"
    assert play([0.0, 1.0], broken=[1])[0] == "ends-failed"


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_count_is_finite_and_not_negative(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ExactSearch(3).add(0, value)
