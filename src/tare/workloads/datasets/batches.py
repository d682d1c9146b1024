"""Batches of prepared data in the shapes that a workload reads, and their order, the same on every rung.

There is no augmentation. Of an epoch whose images are no whole number of batches, the last few are left out: they
are others in every epoch, because every epoch has an order of its own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput
from tare.workloads.datasets.prepared import PreparedSplit

Array = NDArray[np.float32]
Order = NDArray[np.int64]
SEED = 20_260_102


class Shapes(NamedTuple):
    """The shapes of a workload's example batch. `classes` is the number of classes of its output, if known."""

    args: tuple[tuple[int, ...], ...]
    target: tuple[int, ...]
    classes: int | None = None

    @property
    def batch(self) -> int:
        return self.args[0][1] if len(self.args[0]) == 3 else self.args[0][0]


def image_shape(native: tuple[int, int, int], classes: int, shapes: Shapes) -> tuple[int, int, int]:
    """The channels, height and width that images need to have for a workload; BadInput where none fit."""
    channels, height, width = native
    if len(shapes.args) != 1:
        raise BadInput(f"the data has one image per sample, and this workload takes {len(shapes.args)} inputs")
    if shapes.classes is not None and shapes.classes < classes:
        raise BadInput(f"the data has {classes} classes: want --size classes={classes} or more")
    shape = shapes.args[0]
    if len(shape) == 4:
        if channels not in (1, shape[1]):
            hint = f"want --size channels={channels}, if it has that size"
            raise BadInput(f"an image has {channels} channels, and this workload reads {shape[1]}: {hint}")
        return shape[1], shape[2], shape[3]
    if len(shape) == 2:
        pixels = channels * height * width
        if shape[1] != pixels:
            option = f"--size features={pixels}, if the workload has that size"
            raise BadInput(f"an image has {pixels} pixels and a sample {shape[1]} features: want {option}")
        return native
    if len(shape) == 3:
        # One row of the image per time step; the target is one-hot, and the same at every step.
        if channels != 1 or (shape[0], shape[2]) != (height, width):
            option = f"--size steps={height} --size input={width}"
            raise BadInput(
                f"an image has {channels * height} rows of {width} pixels: want grey images and {option}"
            )
        if len(shapes.target) != 3 or shapes.target[2] < classes:
            raise BadInput(f"the data has {classes} classes: want --size hidden={classes} or more")
        return native
    raise BadInput(f"no image fits an input of shape {shape}")


def make_batch(split: PreparedSplit, chosen: Order, shapes: Shapes) -> list[Array]:
    """The input and the target. Both are float32, class indices too: that is exact, and programs in other
    languages need only one type. rungs/native/worker/dataset.hpp does the same."""
    pixels, labels, shape = split.pixels(chosen), split.labels[chosen], shapes.args[0]
    if len(shape) != 3:
        return [pixels.reshape(len(chosen), *shape[1:]), labels.astype(np.float32)]
    target = np.zeros((shape[0], len(chosen), shapes.target[2]), np.float32)
    target[:, np.arange(len(chosen)), labels] = 1.0
    return [np.ascontiguousarray(pixels[:, 0].transpose(1, 0, 2)), target]


def epoch_order(images: int, batch: int, run: int, epoch: int) -> Order:
    """The indices of the images of an epoch, whole batches only. Every run and epoch has its own."""
    if images < batch:
        raise BadInput(
            f"there are {images} training images, fewer than a batch of {batch}: want a smaller --batch"
        )
    order = np.random.default_rng((SEED, run, epoch)).permutation(images)
    return order[: images // batch * batch].astype(np.int64)


def steps_order(images: int, batch: int, steps: int) -> Order:
    """The indices of the images of so many steps: none is repeated before all have been used."""
    rng = np.random.default_rng(SEED)
    rounds = 1 + batch * steps // images
    return np.concatenate([rng.permutation(images) for _ in range(rounds)])[: batch * steps].astype(np.int64)
