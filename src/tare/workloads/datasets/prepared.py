"""A dataset as plain arrays in a folder, which rungs in Python and in C++ read alike (docs/train.md has the
format):

header.json           names, counts and shapes
train.images.u8       bytes, (n, channels, height, width); test.images.u8 likewise
train.labels.i64      class indices from 0; test.labels.i64 likewise
levels.f32            for each channel the float32 that each of the 256 bytes stands for

The table of levels holds the standardisation (the mean and the deviation of each channel over the training
images), so that no two languages can round it differently.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput, brief
from tare.workloads.datasets.source import ImageSource, ImageSplit, Labels, Pixels

VERSION = 1
HEADER = "header.json"
# Called with the number of images that are done, and that of all.
OnImages = Callable[[int, int], None]


class DataHeader(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the files that the data come from; `train` and `test` are numbers of images."""

    version: int = VERSION
    name: str
    digest: str
    is_published: bool
    classes: list[str]
    channels: int
    height: int
    width: int
    train: int
    test: int
    mean: list[float]
    deviation: list[float]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width


class PreparedSplit:
    """The images and labels of a split, mapped into memory."""

    def __init__(self, images: Pixels, labels: Labels, levels: NDArray[np.float32]) -> None:
        self.labels, self._images, self._levels = labels, images, levels

    def __len__(self) -> int:
        return len(self.labels)

    def pixels(self, chosen: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Standardised images in the order of the indices: (n, channels, height, width)."""
        channels = np.arange(self._images.shape[1])[None, :, None, None]
        return self._levels[channels, self._images[chosen]]


class PreparedData:
    """BadInput where the folder is not as `prepare` wrote it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.header = msgspec.json.decode((folder / HEADER).read_bytes(), type=DataHeader)
        except (OSError, msgspec.DecodeError) as error:
            raise BadInput(f"{folder} is no prepared data: {brief(error)}") from None
        if self.header.version != VERSION:
            raise BadInput(
                f"{folder} has version {self.header.version} of prepared data, this tare reads {VERSION}"
            )
        levels = self._map("levels.f32", (self.header.channels, 256), np.float32)
        self.train, self.test = (
            PreparedSplit(
                self._map(f"{name}.images.u8", (count, *self.header.shape), np.uint8),
                self._map(f"{name}.labels.i64", (count,), np.int64),
                levels,
            )
            for name, count in (("train", self.header.train), ("test", self.header.test))
        )

    def _map(self, name: str, shape: tuple[int, ...], kind: type) -> Any:
        path = self.folder / name
        expected = int(np.prod(shape)) * np.dtype(kind).itemsize
        found = path.stat().st_size if path.is_file() else 0
        if found != expected:
            raise BadInput(f"{path} has {found} bytes, and its header says {expected}: remove {self.folder}")
        return np.memmap(path, dtype=np.dtype(kind).newbyteorder("<"), mode="r", shape=shape)


def prepare(
    name: str, source: ImageSource, shape: tuple[int, int, int], root: Path, on_images: OnImages = lambda *_: None
) -> PreparedData:
    """The data with images of this shape (channels, height, width), from `root` if they were prepared before. A
    folder appears there when it is complete."""
    text = f"{VERSION}/{name}/{source.digest}/{shape}"
    folder = root / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if (folder / HEADER).is_file():
        return PreparedData(folder)
    if min(len(source.train.labels), len(source.test.labels)) == 0:
        raise BadInput(
            f"the data '{name}' have {len(source.train.labels)} training and {len(source.test.labels)} test images"
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=root))
        try:
            _write(partial, name, source, shape, on_images)
            # Another process may have been faster.
            with contextlib.suppress(OSError):
                partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise BadInput(f"cannot write to {root}: {error.strerror or error}") from None
    return PreparedData(folder)


def _write(folder: Path, name: str, source: ImageSource, shape: tuple[int, int, int], on_images: OnImages) -> None:
    total, done = len(source.train.labels) + len(source.test.labels), 0
    # How often each channel of the training images has each byte: mean and deviation follow exactly.
    counts = np.zeros((shape[0], 256), np.int64)
    for split_name, split in (("train", source.train), ("test", source.test)):
        with (folder / f"{split_name}.images.u8").open("wb") as file:
            for images in split.read():
                fitted = fit(images, shape)
                file.write(fitted.tobytes())
                if split is source.train:
                    for channel in range(shape[0]):
                        counts[channel] += np.bincount(fitted[:, channel].ravel(), minlength=256)
                done += len(images)
                on_images(done, total)
        _write_labels(folder / f"{split_name}.labels.i64", split)
    values, numbers = np.arange(256), counts.sum(axis=1)
    mean = counts @ values / numbers
    deviation = np.sqrt(np.maximum(counts @ values**2 / numbers - mean**2, 0))
    # A channel of one constant stays what it is, less its mean.
    scale = np.where(deviation > 0, deviation, 1.0)
    levels = ((values[None, :] - mean[:, None]) / scale[:, None]).astype("<f4")
    (folder / "levels.f32").write_bytes(levels.tobytes())
    header = DataHeader(
        name=name,
        digest=source.digest,
        is_published=source.is_published,
        classes=list(source.classes),
        channels=shape[0],
        height=shape[1],
        width=shape[2],
        train=len(source.train.labels),
        test=len(source.test.labels),
        mean=mean.tolist(),
        deviation=deviation.tolist(),
    )
    descriptor = os.open(folder / HEADER, os.O_WRONLY | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(header)))
        file.flush()
        os.fsync(file.fileno())


def _write_labels(path: Path, split: ImageSplit) -> None:
    path.write_bytes(split.labels.astype("<i8").tobytes())


def fit(images: Pixels, shape: tuple[int, int, int]) -> Pixels:
    """Grey images repeated over the channels; other sizes by repeating or leaving out pixels (nearest
    neighbour)."""
    channels, height, width = shape
    if images.shape[2:] != (height, width):
        rows, columns = (
            np.arange(size) * old // size for size, old in zip((height, width), images.shape[2:], strict=True)
        )
        images = images[:, :, rows[:, None], columns[None, :]]
    return np.ascontiguousarray(np.broadcast_to(images, (len(images), channels, height, width)))
