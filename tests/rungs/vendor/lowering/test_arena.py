"""One block of memory: what lives at the same time never overlaps, and no byte is wasted without need."""

from arenas import floor
from hypothesis import given
from hypothesis import strategies as st

from tare.rungs.vendor.lowering.arena import ALIGNMENT, Life, aligned, place


@st.composite
def lives(draw: st.DrawFn) -> Life:
    first = draw(st.integers(0, 30))
    return Life(draw(st.integers(1, 5000)), first, first + draw(st.integers(0, 10)))


@given(st.lists(lives(), max_size=40))
def test_what_lives_at_the_same_time_never_overlaps(given_lives: list[Life]) -> None:
    offsets, total = place(given_lives)
    for i, a in enumerate(given_lives):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.bytes <= total
        for j, b in enumerate(given_lives[:i]):
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[i] + a.bytes <= offsets[j] or offsets[j] + b.bytes <= offsets[i]
            assert apart or not together


@given(st.lists(lives(), max_size=40))
def test_between_what_is_needed_at_once_and_everything_in_a_row(given_lives: list[Life]) -> None:
    _, total = place(given_lives)
    assert floor(given_lives) <= total <= sum(aligned(life.bytes) for life in given_lives)


def test_a_chain_needs_two_places() -> None:
    """y = f(x) over and over: only two neighbours are alive at any call."""
    chain = [Life(1024, i, i + 1) for i in range(10)]
    offsets, total = place(chain)
    assert total == 2048
    assert set(offsets) == {0, 1024}


def test_nothing_needs_nothing() -> None:
    assert place([]) == ([], 0)
    assert floor([]) == 0
