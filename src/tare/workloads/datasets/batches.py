"""Pictures in the shapes that a workload reads: as pictures, as rows of numbers, or row by row in time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput
from tare.workloads.datasets.registry import Images

Array = NDArray[np.float32]
SEED = 20_260_102


class Shapes(NamedTuple):
    """The shapes of a workload's example batch. `classes` is what its output can tell apart, if it says so."""

    args: tuple[tuple[int, ...], ...]
    target: tuple[int, ...]
    classes: int | None = None


def make_batches(images: Images, shapes: Shapes, steps: int) -> list[list[Array]]:
    """A batch a step, each of other pictures until all have been seen: the arguments and, last, the target. All
    are float32, class numbers too: that is exact, and is the one format that programs in other languages must
    read."""
    if len(shapes.args) != 1:
        raise BadInput(f"the data is one picture a sample, and this workload takes {len(shapes.args)} inputs")
    if shapes.classes is not None and shapes.classes < images.classes:
        raise BadInput(f"the data has {images.classes} classes: want --size classes={images.classes} or more")
    shape = shapes.args[0]
    if len(shape) == 3:
        return [_in_time(images, chosen, shapes) for chosen in _choices(images, shape[1], steps)]
    return [
        [_inputs(images.pixels[chosen], shape), images.labels[chosen].astype(np.float32)]
        for chosen in _choices(images, shape[0], steps)
    ]


def _choices(images: Images, batch: int, steps: int) -> Iterator[NDArray[np.int64]]:
    """The same pictures in the same order in every process."""
    chance = np.random.default_rng(SEED)
    order = np.concatenate(
        [chance.permutation(len(images.labels)) for _ in range(1 + batch * steps // len(images.labels))]
    )
    for step in range(steps):
        yield order[step * batch : (step + 1) * batch]


def _inputs(pixels: Array, shape: tuple[int, ...]) -> Array:
    size = pixels.shape[1]
    if len(shape) == 4:
        rows, columns = ((np.arange(wanted) * size) // wanted for wanted in shape[2:])
        picture = pixels[:, rows[:, None], columns[None, :]]
        return np.ascontiguousarray(np.repeat(picture[:, None], shape[1], axis=1))
    if len(shape) == 2:
        if shape[1] != size * size:
            fitting = f"--size features={size * size}, if the workload has that size"
            raise BadInput(f"a picture is {size * size} numbers and a sample {shape[1]}: want {fitting}")
        return pixels.reshape(len(pixels), -1)
    raise BadInput(f"no picture fits an input of shape {shape}")


def _in_time(images: Images, chosen: NDArray[np.int64], shapes: Shapes) -> list[Array]:
    """A row a time step; the target is 1 in the place of the picture's class at every step, and 0 elsewhere."""
    size = images.pixels.shape[1]
    steps, batch, features = shapes.args[0]
    if (steps, features) != (size, size):
        raise BadInput(f"a picture is {size} rows of {size} numbers: want --size steps={size} --size input={size}")
    if len(shapes.target) != 3 or shapes.target[2] < images.classes:
        raise BadInput(f"the data has {images.classes} classes: want --size hidden={images.classes} or more")
    target = np.zeros(shapes.target, np.float32)
    target[:, np.arange(batch), images.labels[chosen]] = 1.0
    return [np.ascontiguousarray(images.pixels[chosen].transpose(1, 0, 2)), target]
