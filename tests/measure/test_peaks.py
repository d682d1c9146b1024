"""The steps of the peaks: how large a product is where its precision has a unit, and where it has none."""

from itertools import accumulate

import pytest

from tare.measure.peaks import LONGEST_PRODUCT_S, MATRIX, SMALL_MATRIX, Load, affordable

LARGE = MATRIX["cpu"]
# How much longer the large product takes.
TIMES = (LARGE / SMALL_MATRIX) ** 3


@pytest.mark.parametrize(
    ("seconds", "size"),
    [
        ([9.0, 0.9 * LONGEST_PRODUCT_S / TIMES, 9.0], LARGE),
        ([9.0, 9.0, 0.9 * LONGEST_PRODUCT_S / TIMES], LARGE),
        ([0.0, 1.1 * LONGEST_PRODUCT_S / TIMES, 9.0], SMALL_MATRIX),
    ],
    ids=["with a unit", "disturbed once", "without one"],
)
def test_a_product_is_small_only_where_the_large_one_would_take_too_long(seconds: list[float], size: int) -> None:
    ends = accumulate(seconds)
    begun = [0.0, *accumulate(seconds)]
    times = iter([moment for pair in zip(begun, ends, strict=False) for moment in pair])
    made = affordable(lambda size: Load(lambda: None, float(size)), LARGE, lambda: next(times))
    assert made.amount == size
