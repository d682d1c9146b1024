"""Pictures in the shapes of workloads."""

import numpy as np
import pytest

from tare.errors import BadInput
from tare.workloads.datasets import Shapes, load, make_batches
from tare.workloads.datasets.registry import Images

PIXELS = np.arange(5 * 4 * 4, dtype=np.float32).reshape(5, 4, 4)
IMAGES = Images(PIXELS, np.array([0, 1, 2, 1, 0]), 3)


def which(rows: np.ndarray) -> list[int]:
    """The numbers of the pictures from their first pixels."""
    return [int(pixel) // 16 for pixel in rows]


def test_a_picture_is_enlarged_pixel_by_pixel_and_repeated_over_channels() -> None:
    ((x, y),) = make_batches(IMAGES, Shapes(((2, 3, 8, 8),), (2,), 3), 1)
    assert x.shape == (2, 3, 8, 8)
    first = PIXELS[which(x[:, 0, 0, 0])[0]]
    for channel in range(3):
        np.testing.assert_array_equal(x[0, channel], np.kron(first, np.ones((2, 2))))
    np.testing.assert_array_equal(y, IMAGES.labels[which(x[:, 0, 0, 0])])


def test_all_pictures_are_seen_before_one_comes_again() -> None:
    batches = make_batches(IMAGES, Shapes(((2, 16),), (2,), 3), 5)
    seen = [number for x, _ in batches for number in which(x[:, 0])]
    assert sorted(seen[:5]) == [0, 1, 2, 3, 4]
    assert sorted(seen[5:]) == [0, 1, 2, 3, 4]


def test_the_same_pictures_in_every_process_and_the_arrays_can_be_read_anywhere() -> None:
    shapes = Shapes(((2, 16),), (2,), 3)
    for one, other in zip(make_batches(IMAGES, shapes, 4), make_batches(IMAGES, shapes, 4), strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == np.float32
            assert mine.flags.c_contiguous


def test_rows_come_one_after_another_in_time() -> None:
    ((x, y),) = make_batches(IMAGES, Shapes(((4, 2, 4),), (4, 2, 6)), 1)
    numbers = which(x[0, :, 0])
    for i, number in enumerate(numbers):
        np.testing.assert_array_equal(x[:, i], PIXELS[number])
        assert y[:, i].argmax(axis=1).tolist() == [IMAGES.labels[number]] * 4
    assert y.sum() == 4 * 2


@pytest.mark.parametrize(
    ("shapes", "what"),
    [
        (Shapes(((2, 15),), (2,), 3), "features=16"),
        (Shapes(((3, 2, 4),), (3, 2, 6)), "steps=4"),
        (Shapes(((4, 2, 4),), (4, 2, 2)), "hidden=3"),
        (Shapes(((2, 16),), (2,), 2), "classes=3"),
        (Shapes(((2, 16), (2, 16)), (2,)), "2 inputs"),
        (Shapes(((2, 1, 4, 4, 4),), (2,)), "no picture fits"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(shapes: Shapes, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        make_batches(IMAGES, shapes, 1)


def test_the_digits_are_there_and_standardised() -> None:
    digits = load("digits")
    assert digits.pixels.shape == (1797, 8, 8)
    assert set(digits.labels.tolist()) == set(range(10))
    assert abs(float(digits.pixels.mean())) < 1e-4
    assert float(digits.pixels.std()) == pytest.approx(1, abs=1e-4)


def test_an_unknown_name_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(BadInput, match="digits"):
        load("digit")
