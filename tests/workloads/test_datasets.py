"""Images in the shapes that workloads read."""

import numpy as np
import pytest

from tare.errors import BadInput
from tare.workloads.datasets import Images, Shapes, load, make_batches

PIXELS = np.arange(5 * 4 * 4, dtype=np.float32).reshape(5, 4, 4)
IMAGES = Images(PIXELS, np.array([0, 1, 2, 1, 0]), 3)


def image_indices(rows: np.ndarray) -> list[int]:
    """The indices of the images, from their first pixels."""
    return [int(pixel) // 16 for pixel in rows]


def test_image_is_resized_and_repeated_over_channels() -> None:
    ((x, y),) = make_batches(IMAGES, Shapes(((2, 3, 8, 8),), (2,), 3), 1)
    assert x.shape == (2, 3, 8, 8)
    first = PIXELS[image_indices(x[:, 0, 0, 0])[0]]
    for channel in range(3):
        np.testing.assert_array_equal(x[0, channel], np.kron(first, np.ones((2, 2))))
    np.testing.assert_array_equal(y, IMAGES.labels[image_indices(x[:, 0, 0, 0])])


def test_every_image_is_used_before_one_is_repeated() -> None:
    batches = make_batches(IMAGES, Shapes(((2, 16),), (2,), 3), 5)
    seen = [number for x, _ in batches for number in image_indices(x[:, 0])]
    assert sorted(seen[:5]) == [0, 1, 2, 3, 4]
    assert sorted(seen[5:]) == [0, 1, 2, 3, 4]


def test_batches_are_deterministic_contiguous_float32() -> None:
    shapes = Shapes(((2, 16),), (2,), 3)
    for one, other in zip(make_batches(IMAGES, shapes, 4), make_batches(IMAGES, shapes, 4), strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == np.float32
            assert mine.flags.c_contiguous


def test_rows_are_time_steps() -> None:
    ((x, y),) = make_batches(IMAGES, Shapes(((4, 2, 4),), (4, 2, 6)), 1)
    numbers = image_indices(x[0, :, 0])
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
        (Shapes(((2, 1, 4, 4, 4),), (2,)), "no image fits"),
    ],
)
def test_unfitting_shape_is_refused_with_the_fitting_size(shapes: Shapes, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        make_batches(IMAGES, shapes, 1)


def test_digits_are_standardised() -> None:
    digits = load("digits")
    assert digits.pixels.shape == (1797, 8, 8)
    assert set(digits.labels.tolist()) == set(range(10))
    assert abs(float(digits.pixels.mean())) < 1e-4
    assert float(digits.pixels.std()) == pytest.approx(1, abs=1e-4)


def test_unknown_dataset_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(BadInput, match="digits"):
        load("digit")
