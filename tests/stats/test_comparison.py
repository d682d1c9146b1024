"""Comparisons with known answers, and what must hold for any numbers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tare.stats.comparison import Comparison, adjust_p_values, compare, judge, outlying_pairs, suite_noise
from tare.stats.intervals import Interval

positive = st.floats(1e-6, 1e6, allow_nan=False)
sides = st.integers(1, 14).flatmap(
    lambda n: st.tuples(st.lists(positive, min_size=n, max_size=n), st.lists(positive, min_size=n, max_size=n))
)


def found(low: float, mid: float, high: float, p: float = 0.001, sound: bool = True) -> Comparison:
    return Comparison(Interval(low, mid, high, sound), p / 2, 1 - p / 2, 10, 10, True, "ranks")


def test_twice_as_long_is_twice_as_long() -> None:
    a = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.005, 0.995, 1.01, 0.99]
    for paired in (True, False):
        result = compare(a, [2 * x for x in a], paired)
        assert result.ratio.mid == pytest.approx(2)
        assert result.ratio.low <= 2 <= result.ratio.high
        assert result.p_higher <= 0.001
        assert result.p_lower > 0.99
        assert judge(result, 0.02) == "higher"


@given(sides, st.booleans())
@settings(max_examples=80)
def test_the_other_way_round_is_the_inverse(both: tuple[list[float], list[float]], paired: bool) -> None:
    there, back = compare(both[0], both[1], paired), compare(both[1], both[0], paired)
    assert there.ratio.mid == pytest.approx(1 / back.ratio.mid, rel=1e-6)
    assert (there.p_higher, there.p_lower) == pytest.approx((back.p_lower, back.p_higher), abs=1e-9)
    if there.ratio.sound and back.ratio.sound:
        assert there.ratio.low == pytest.approx(1 / back.ratio.high, rel=1e-6)
    opposite = {"higher": "lower", "lower": "higher"}
    assert judge(there, 0.02) == opposite.get(judge(back, 0.02), judge(back, 0.02))


@given(sides, st.floats(1e-3, 1e3), st.booleans())
@settings(max_examples=80)
def test_the_unit_does_not_matter(both: tuple[list[float], list[float]], unit: float, paired: bool) -> None:
    plain = compare(both[0], both[1], paired)
    scaled = compare([unit * x for x in both[0]], [unit * x for x in both[1]], paired)
    assert scaled.ratio.mid == pytest.approx(plain.ratio.mid, rel=1e-6)


@given(st.lists(positive, min_size=2, max_size=12), st.booleans())
@settings(max_examples=50)
def test_a_side_is_the_same_as_itself(values: list[float], paired: bool) -> None:
    result = compare(values, values, paired)
    assert result.ratio.mid == pytest.approx(1)
    assert result.p > 0.05


def test_pairs_see_through_drift_that_hides_a_change_from_two_samples() -> None:
    drift = np.linspace(0, 0.4, 12)
    jitter = np.array([0.01, -0.01, 0.005] * 4)
    a, b = np.exp(drift).tolist(), np.exp(drift + 0.05 + jitter).tolist()
    assert judge(compare(a, b, paired=True), 0.02) == "higher"
    assert judge(compare(a, b), 0.02) == "undecided"


def test_an_outlier_is_set_aside_on_whichever_side_it_is() -> None:
    a = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.005, 0.995, 1.01, 0.99, 1.0, 1.0]
    slow = [9.0, *a[1:]]
    for x, y in ((slow, a), (a, slow)):
        result = compare(x, y, paired=True)
        assert result.outliers == 1
        assert judge(result, 0.02) == "same"
    assert not outlying_pairs(np.zeros(9), np.zeros(9)).any()


def test_a_change_of_every_process_is_no_outlier() -> None:
    a = np.log([1.0, 1.001, 0.999, 1.002, 0.998, 1.0])
    assert not outlying_pairs(a, a + 2.0).any()


def test_one_process_knows_no_noise() -> None:
    for paired in (True, False):
        result = compare([1.0], [2.0], paired)
        assert not result.ratio.sound
        assert result.method == "none"
        assert judge(result, 0.02) == "undecided"


def test_without_any_noise_the_ratio_is_exact() -> None:
    assert judge(compare([4.0] * 3, [4.0] * 3), 0.0001) == "same"
    grown = compare([4.0] * 3, [5.0] * 3)
    assert tuple(grown.ratio[:3]) == pytest.approx((1.25, 1.25, 1.25))
    assert judge(grown, 0.02) == "higher"


@pytest.mark.parametrize("a", range(2, 12))
@pytest.mark.parametrize("b", range(2, 12))
def test_a_figure_that_never_varies_is_the_same_however_small_the_margin(a: int, b: int) -> None:
    for value in (0.0677299, 197009408.0, 3e9, 7e-5):
        found = compare([value] * a, [value] * b, required_p=1e-6)
        assert (found.ratio.low, found.ratio.mid, found.ratio.high, found.p) == (1, 1, 1, 1)
        assert judge(found, 0.0) == "same"
        more = compare([value] * a, [value * 1.001] * b, required_p=1e-6)
        assert (judge(more, 0.0), judge(more, 0.02)) == ("higher", "same")


def test_zero_has_no_ratio() -> None:
    assert compare([0.0, 0.0], [0.0, 0.0]).ratio.mid == 1.0
    assert math.isnan(compare([0.0, 0.0], [1.0, 1.0]).ratio.mid)


@pytest.mark.parametrize("modes", [0.0, 0.04])
def test_three_values_beside_many_are_not_sure_too_often(modes: float) -> None:
    """A stored baseline of three rounds: where nothing has changed, a p of 0.0003 should be there once in 3000
    times. Welch's test alone gives it 8 times in 4000 with Gaussian noise, and 77 times with two modes."""
    rng = np.random.default_rng(2)

    def drawn(rounds: int) -> list[float]:
        noise = rng.normal(0, 0.004 if modes else 0.02, rounds) + modes * (rng.random(rounds) < 0.5)
        return [float(value) for value in np.exp(noise)]

    sure = sum(compare(drawn(3), drawn(14)).p_higher <= 0.0003 for _ in range(4000))
    assert sure <= 4


def test_all_zeros_are_the_same() -> None:
    assert judge(compare([0.0, 0.0], [0.0, 0.0, 0.0]), 0.02) == "same"
    assert judge(compare([0.0, 1.0], [0.0, 1.0]), 0.02) == "undecided"


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="nothing"):
        compare([], [1.0])
    with pytest.raises(ValueError, match="as many"):
        compare([1.0, 2.0], [1.0], paired=True)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (found(1.03, 1.05, 1.07), "higher"),
        (found(0.93, 0.95, 0.97), "lower"),
        (found(0.99, 1.0, 1.01), "same"),
        (found(1.005, 1.01, 1.015), "same"),
        (found(1.01, 1.05, 1.09), "undecided"),
        (found(0.9, 1.0, 1.1), "undecided"),
        (found(1.03, 1.05, 1.07, p=0.2), "undecided"),
        (found(1.03, 1.05, 1.07, sound=False), "undecided"),
    ],
)
def test_the_verdict_can_be_read_off_the_interval(result: Comparison, verdict: str) -> None:
    assert judge(result, 0.02) == verdict


def test_many_tests_ask_for_more() -> None:
    assert judge(found(1.03, 1.05, 1.07, p=0.04), 0.02, p=0.4) == "undecided"


@pytest.mark.parametrize(("disturbed", "two", "ranks_alone"), [(1 / 8, 0.88, 0.77), (1 / 5, 0.64, 0.40)])
def test_disturbed_processes_hide_less_from_two_tests(
    disturbed: float, two: float, ranks_alone: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many processes take a third longer. Of true changes of 7 %, among three suspects with 30 pairs each, so
    many are found: the figures of docs/guard.md."""
    rng = np.random.default_rng(3)
    noise = 0.285 * (rng.random((2, 300, 30)) < disturbed) + rng.normal(0, 0.012, (2, 300, 30))

    def share_found() -> float:
        pairs = zip(np.exp(noise[0]).tolist(), (1.07 * np.exp(noise[1])).tolist(), strict=True)
        results = [compare(a, b, paired=True) for a, b in pairs]
        verdicts = [judge(result, 0.02, 3 * result.p_higher, 0.005) for result in results]
        return verdicts.count("higher") / len(verdicts)

    assert share_found() == pytest.approx(two, abs=0.015)
    monkeypatch.setattr("tare.stats.comparison.TWO_TESTS_FROM", 1000)
    assert share_found() == pytest.approx(ranks_alone, abs=0.015)


ps = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(ps, st.floats(0.001, 0.5))
def test_rejecting_is_what_the_definition_rejects(p_values: list[float], level: float) -> None:
    """The largest k with p_(k) <= k q / m, and all that are smaller."""
    ordered = sorted(p_values)
    adjusted = [p * len(ordered) / k for k, p in enumerate(ordered, 1)]
    # At equality rounding decides.
    assume(all(abs(p - level) > 1e-9 for p in adjusted))
    fitting = [k for k, p in enumerate(adjusted, 1) if p <= level]
    cut = ordered[max(fitting) - 1] if fitting else -1.0
    assert [p <= level for p in adjust_p_values(p_values)] == [p <= cut for p in p_values]


@given(ps, st.integers(0, 40))
def test_tests_that_were_not_looked_at_count_as_ones(p_values: list[float], more: int) -> None:
    counted = adjust_p_values(p_values, tests=len(p_values) + more)
    assert counted == pytest.approx(adjust_p_values([*p_values, *[1.0] * more])[: len(p_values)])


def test_no_tests_are_no_trouble() -> None:
    assert adjust_p_values([]) == []


def test_pairs_of_a_machine_that_alternates_are_compared_by_their_order() -> None:
    """The second process of every pair takes 10 % longer, and b 5 %. By the differences alone the interval reaches
    from nothing to 15 %."""
    rng = np.random.default_rng(1)
    b_first = [bool(order) for order in rng.permutation(12) % 2]
    noise = rng.normal(0, 0.002, (2, 12))
    a = [math.exp(0.1 * first + e) for first, e in zip(b_first, noise[0], strict=True)]
    b = [1.05 * math.exp(0.1 * (not first) + e) for first, e in zip(b_first, noise[1], strict=True)]
    ignored, known = compare(a, b, paired=True), compare(a, b, paired=True, b_first=b_first)
    assert ignored.ratio.low < 1.0 < 1.1 < ignored.ratio.high
    assert 1.045 < known.ratio.low < 1.05 < known.ratio.high < 1.055
    # One of C(12, 6) ways to draw the order gives this much, and the test has a quarter of the level.
    assert known.p_higher == pytest.approx(4 / math.comb(12, 6))
    few = compare(a[:6], b[:6], paired=True, b_first=b_first[:6])
    assert few.in_order is not None
    assert few.in_order.ratio.mid == pytest.approx(1.05, abs=0.005)
    assert few.in_order.p_higher < 0.001 < few.p_higher


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=10, max_size=10, unique=True))
@settings(max_examples=4)
def test_with_a_known_order_the_p_value_is_valid_whatever_the_processes_took(
    pairs: list[tuple[float, float]],
) -> None:
    """The first and the second process of each pair took what they took, and b was either. Over all orders that
    could have been drawn, p is at most a level in at most that share."""
    first, second = np.array(pairs).T
    # With fewer than ten pairs left, Student's test is used, which is valid for Gaussian noise alone.
    assume(not outlying_pairs(first, second).any())
    p_values = []
    for order in itertools.product([False, True], repeat=10):
        b_first = np.array(order)
        a, b = np.exp(np.where(b_first, second, first)), np.exp(np.where(b_first, first, second))
        p_values.append(compare(a.tolist(), b.tolist(), paired=True, b_first=list(order)).p_higher)
    for level in (0.01, 0.025, 0.05, 0.1):
        assert np.mean(np.array(p_values) <= level) <= level


def test_the_noise_of_a_suite_is_that_of_its_noisier_sides() -> None:
    rng = np.random.default_rng(2)
    quiet = [np.exp(rng.normal(0, 0.02, 3)).tolist() for _ in range(400)]
    assert suite_noise(quiet) == pytest.approx(0.02, rel=0.1)
    two_modes = [np.exp(0.05 * rng.integers(0, 2, 3) + rng.normal(0, 0.001, 3)).tolist() for _ in range(400)]
    assert suite_noise(two_modes) == pytest.approx(0.025, rel=0.1)
    assert suite_noise(quiet[:7]) == 0
    assert suite_noise([[1.0]] * 100) == 0
    certain = compare([1.0, 1.0, 1.0], [1.05, 1.0501, 1.05])
    doubted = compare([1.0, 1.0, 1.0], [1.05, 1.0501, 1.05], least_noise=0.025)
    assert certain.p < 1e-6
    # A difference of 4.9 % with a standard error of 0.025 * sqrt(2 / 3).
    assert doubted.p == pytest.approx(
        2 * 0.5 * math.erfc(math.log(1.05) / (0.025 * math.sqrt(2 / 3)) / 2**0.5), rel=0.01
    )
