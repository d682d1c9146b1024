"""Which numbers of a large tensor are compared."""

from math import gcd

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.measure import parity
from tare.measure.parity import MOST_NUMBERS, errors, thinned


def test_what_is_not_very_large_is_compared_as_it_is() -> None:
    values = np.zeros((1024, MOST_NUMBERS // 1024))
    assert thinned(values) is values


def test_of_a_very_large_one_about_a_million_are() -> None:
    found = thinned(np.arange(100_000_000, dtype=np.int32).reshape(10_000, 10_000)).tolist()
    assert (len(found), found[:3]) == (-(-100_000_000 // 97), [0, 97, 194])


def test_what_is_empty_stays_so() -> None:
    """The boxes of a detector that has found nothing."""
    values = torch.zeros(0, 4)
    assert thinned(values) is values


@given(shape=st.lists(st.integers(1, 40), min_size=1, max_size=3))
@settings(max_examples=80, deadline=None)
def test_torch_and_numpy_take_the_same_in_every_layout(shape: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "MOST_NUMBERS", 100)
        plain = torch.arange(int(np.prod(shape))).reshape(shape)
        turned = plain.transpose(0, -1).contiguous().transpose(0, -1)
        taken = thinned(plain.numpy())
        assert taken.size <= 100
        assert np.array_equal(taken, thinned(turned).numpy())
        # Never the same column over and over, unless the step divides its length.
        step = int(taken[1]) if taken.ndim == 1 and taken.size > 1 else 1
        assert gcd(step, shape[-1]) in (1, step)


def test_a_wrong_row_still_shows() -> None:
    wanted = np.random.default_rng(0).standard_normal((2000, 3000))
    wrong = wanted.copy()
    wrong[1234] = -wrong[1234]
    whole = errors({"output/0": wanted}, {"output/0": wrong})["output/0"]
    part = errors({"output/0": thinned(wanted)}, {"output/0": thinned(wrong)})["output/0"]
    assert part == pytest.approx(whole, rel=0.1)
