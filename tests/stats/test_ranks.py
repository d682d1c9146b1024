"""The exact rank tests beside scipy's and beside what can be counted by hand."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, wilcoxon

from tare.stats.ranks import (
    rank_sum_interval,
    rank_sum_p,
    signed_rank_interval,
    signed_rank_p,
    smallest_p,
)

numbers = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3))
samples = st.lists(numbers, min_size=2, max_size=9, unique=True).map(np.array)


@given(samples.filter(lambda d: 0 not in d and len(set(np.abs(d))) == len(d)))
@settings(max_examples=60)
def test_the_signed_rank_p_is_scipys_exact_one(differences: np.ndarray) -> None:
    expected = wilcoxon(differences, alternative="greater", method="exact").pvalue
    assert signed_rank_p(differences) == pytest.approx(expected, abs=1e-12)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=8).map(lambda v: np.array(v, dtype=float)),
    st.sampled_from([1.0, 0.5, 1 / 3]),
)
@settings(max_examples=120)
def test_with_ties_zeros_and_a_cap_it_is_the_count_over_all_signs(differences: np.ndarray, cap: float) -> None:
    signed = differences[differences != 0]
    if signed.size == 0:
        assert signed_rank_p(differences, cap) == 1.0
        return
    sizes = np.abs(signed)
    ranks = np.array([(sizes < s).sum() + ((sizes == s).sum() + 1) / 2 for s in sizes])
    ranks = np.minimum(ranks, np.ceil(cap * signed.size))
    observed = ranks[signed > 0].sum()
    sums = [ranks[np.array(signs) > 0].sum() for signs in product((-1, 1), repeat=signed.size)]
    assert signed_rank_p(differences, cap) == pytest.approx(np.mean(np.array(sums) >= observed - 1e-9))


different = st.lists(numbers, min_size=8, max_size=12, unique=True).map(np.array)


@given(different)
@settings(max_examples=60)
def test_without_a_cap_the_interval_is_bounded_by_walsh_averages(differences: np.ndarray) -> None:
    """Hodges and Lehmann (1963): as many averages lie outside on either side as the exact distribution allows."""
    i, j = np.triu_indices(differences.size)
    averages = np.sort((differences[i] + differences[j]) / 2)
    sums = [sum(chosen) for n in range(6) for chosen in combinations(range(1, differences.size + 1), n)]
    cut = max(k for k in range(16) if sum(s <= k for s in sums) * 2.0**-differences.size <= 0.025)
    expected = averages[cut], np.median(averages), averages[averages.size - 1 - cut]
    assert signed_rank_interval(differences, 0.95) == pytest.approx(expected)


@given(different)
@settings(max_examples=60)
def test_the_interval_holds_what_its_test_does_not_reject(differences: np.ndarray) -> None:
    low, middle, high = signed_rank_interval(differences, 0.9, 1 / 3)
    assert low <= middle <= high
    for shift in np.linspace(differences.min() - 1, differences.max() + 1, 41):
        if min(abs(shift - low), abs(shift - high)) > 1e-6:
            kept = min(signed_rank_p(d, 1 / 3) for d in (differences - shift, shift - differences)) > 0.05
            assert kept == (low < shift < high)


def test_a_quarter_of_large_noise_does_not_drown_the_rest_of_a_capped_test() -> None:
    """Eight of 32 pairs are disturbed, as often on one side as on the other; all others are a little above."""
    differences = np.concatenate(
        [np.linspace(0.05, 0.07, 24), np.linspace(0.28, 0.3, 4), -np.linspace(0.28, 0.3, 4)]
    )
    assert signed_rank_p(differences) > 1e-3
    assert signed_rank_p(differences, 1 / 3) < 1e-4


@given(samples, samples)
@settings(max_examples=60)
def test_the_rank_sum_p_is_scipys_exact_one(a: np.ndarray, b: np.ndarray) -> None:
    if set(a) & set(b):
        return
    expected = mannwhitneyu(b, a, alternative="greater", method="exact").pvalue
    assert rank_sum_p(a, b) == pytest.approx(expected, abs=1e-12)


def test_no_rounding_makes_a_p_negative() -> None:
    low, high = np.arange(40.0), np.arange(100.0, 140.0)
    assert rank_sum_p(low, high) == pytest.approx(1 / comb(80, 40), rel=1e-6, abs=0)
    assert rank_sum_p(high, low) == 1.0


def test_a_tie_between_the_samples_never_speaks_for_a_difference() -> None:
    assert rank_sum_p(np.ones(5), np.ones(5)) == 1.0
    apart, tied = np.array([2.0, 3.0, 4.0]), np.array([1.0, 3.0, 4.0])
    assert rank_sum_p(np.array([0.0, 0.5, 1.0]), apart) < rank_sum_p(np.array([0.0, 0.5, 1.0]), tied)


@pytest.mark.parametrize(("n", "m"), [(6, 6), (5, 9), (20, 3)])
def test_the_shift_interval_covers_as_often_as_can_be_counted(n: int, m: int) -> None:
    """Over all ways to deal ranks into two samples, the interval must miss zero at most 5 % of the time."""
    ranks = np.arange(1.0, n + m + 1)
    deals = list(combinations(range(n + m), n))
    rng = np.random.default_rng(1)
    chosen = deals if len(deals) < 1000 else [deals[i] for i in rng.choice(len(deals), 1000, replace=False)]
    missed = 0
    for deal in chosen:
        inside = np.isin(np.arange(n + m), deal)
        low, _, high = rank_sum_interval(ranks[inside], ranks[~inside], 0.95)
        missed += not low <= 0 <= high
    assert missed / len(chosen) <= 0.05 + (0.02 if len(chosen) < len(deals) else 0)
    assert missed > 0


def test_too_few_values_bound_nothing() -> None:
    assert rank_sum_interval(np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), 0.95)[::2] == (-np.inf, np.inf)
    assert signed_rank_interval(np.array([1.0, 2, 3, 4, 5]), 0.95)[::2] == (-np.inf, np.inf)
    assert signed_rank_interval(np.array([1.0, 2, 3, 4, 5, 6]), 0.95) == (1.0, 3.5, 6.0)


def test_the_smallest_p_is_that_of_complete_separation() -> None:
    assert smallest_p(6, 6, paired=False) == pytest.approx(rank_sum_p(np.arange(6.0), np.arange(6.0) + 10))
    assert smallest_p(7, 7, paired=True) == pytest.approx(signed_rank_p(np.arange(1.0, 8)))


@pytest.mark.parametrize("count", [70, 90])
def test_many_values_pass_from_exact_to_normal_without_a_jump(count: int) -> None:
    differences = np.random.default_rng(3).normal(0.2, 1, count)
    expected = wilcoxon(differences, alternative="greater", method="approx", correction=True).pvalue
    assert signed_rank_p(differences) == pytest.approx(expected, rel=0.05)
