"""Real data that ships with an installed package, as arrays in the shapes that a workload reads. Nothing is ever
downloaded."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput, unknown

Array = NDArray[np.float32]
SEED = 20_260_102


class Images(NamedTuple):
    """Grey images, standardised over the whole set, with their class indices."""

    pixels: Array
    labels: NDArray[np.int64]
    classes: int


def digits() -> Images:
    """The test set of the UCI handwritten digits (1797 images of 8x8), from scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput("the data 'digits' comes with scikit-learn: pip install scikit-learn") from None
    bunch: Any = load_digits()
    pixels = bunch.images.astype(np.float32)
    return Images((pixels - pixels.mean()) / pixels.std(), bunch.target.astype(np.int64), 10)


DATASETS: Mapping[str, Callable[[], Images]] = {"digits": digits}
# Default sizes of workloads that suit a dataset.
SIZES: Mapping[str, Mapping[str, int]] = {
    "digits": {"classes": 10, "channels": 1, "resolution": 32, "features": 64, "input": 8, "steps": 8},
}


def load(name: str) -> Images:
    if name not in DATASETS:
        raise unknown("data", name, DATASETS)
    return DATASETS[name]()


class Shapes(NamedTuple):
    """The shapes of a workload's example batch. `classes` is the number of classes of its output, if known."""

    args: tuple[tuple[int, ...], ...]
    target: tuple[int, ...]
    classes: int | None = None


def make_batches(images: Images, shapes: Shapes, steps: int) -> list[list[Array]]:
    """One batch per step: the arguments and, last, the target. No image is repeated before all have been used. All
    arrays are float32, class indices too: that is exact, and programs in other languages need to read only one
    format."""
    if len(shapes.args) != 1:
        raise BadInput(f"the data has one image per sample, and this workload takes {len(shapes.args)} inputs")
    if shapes.classes is not None and shapes.classes < images.classes:
        raise BadInput(f"the data has {images.classes} classes: want --size classes={images.classes} or more")
    shape = shapes.args[0]
    if len(shape) == 3:
        return [_sequences(images, chosen, shapes) for chosen in _choices(images, shape[1], steps)]
    return [
        [_inputs(images.pixels[chosen], shape), images.labels[chosen].astype(np.float32)]
        for chosen in _choices(images, shape[0], steps)
    ]


def _choices(images: Images, batch: int, steps: int) -> Iterator[NDArray[np.int64]]:
    """The indices of the images of each step, the same in every process."""
    rng = np.random.default_rng(SEED)
    epochs = 1 + batch * steps // len(images.labels)
    order = np.concatenate([rng.permutation(len(images.labels)) for _ in range(epochs)])
    for step in range(steps):
        yield order[step * batch : (step + 1) * batch]


def _inputs(pixels: Array, shape: tuple[int, ...]) -> Array:
    size = pixels.shape[1]
    if len(shape) == 4:
        rows, columns = ((np.arange(target) * size) // target for target in shape[2:])
        resized = pixels[:, rows[:, None], columns[None, :]]
        return np.ascontiguousarray(np.repeat(resized[:, None], shape[1], axis=1))
    if len(shape) == 2:
        if shape[1] != size * size:
            option = f"--size features={size * size}, if the workload has that size"
            raise BadInput(f"an image has {size * size} pixels and a sample {shape[1]} features: want {option}")
        return pixels.reshape(len(pixels), -1)
    raise BadInput(f"no image fits an input of shape {shape}")


def _sequences(images: Images, chosen: NDArray[np.int64], shapes: Shapes) -> list[Array]:
    """One row of the image per time step. The target is one-hot, and the same at every step."""
    size = images.pixels.shape[1]
    steps, batch, features = shapes.args[0]
    if (steps, features) != (size, size):
        raise BadInput(f"an image has {size} rows of {size} pixels: want --size steps={size} --size input={size}")
    if len(shapes.target) != 3 or shapes.target[2] < images.classes:
        raise BadInput(f"the data has {images.classes} classes: want --size hidden={images.classes} or more")
    target = np.zeros(shapes.target, np.float32)
    target[:, np.arange(batch), images.labels[chosen]] = 1.0
    return [np.ascontiguousarray(images.pixels[chosen].transpose(1, 0, 2)), target]
