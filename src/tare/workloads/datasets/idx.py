"""MNIST and Fashion-MNIST in their original files (IDX: a magic number, the sizes, then bytes), packed or not."""

import struct
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput
from tare.workloads.datasets.source import (
    Checksum,
    ImageSource,
    ImageSplit,
    check_labels,
    digest_of,
    in_chunks,
    read_files,
)

FILES = tuple(f"{split}-{kind}-ubyte" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
# Of the files unpacked.
SIZES = dict(zip(FILES, (47_040_016, 60_008, 7_840_016, 10_008), strict=True))
MNIST_MD5 = (
    "6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637",
)  # fmt: skip
FASHION_MD5 = (
    "f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965",
)  # fmt: skip
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
# What the magic number of a file of bytes begins with; its last byte counts the dimensions.
BYTES = 0x0800


def read_mnist(folder: Path, _: int) -> ImageSource:
    return _read(folder, MNIST_MD5, tuple(map(str, range(10))))


def read_fashion(folder: Path, _: int) -> ImageSource:
    return _read(folder, FASHION_MD5, FASHION)


def find_file(folder: Path, name: str) -> Path | None:
    """Some copies have a dot in place of the second hyphen."""
    stems = (name, name.replace("-idx", ".idx"))
    candidates = [folder / f"{stem}{ending}" for stem in stems for ending in ("", ".gz")]
    return next((path for path in candidates if path.is_file()), None)


def _read(folder: Path, md5: tuple[str, ...], classes: tuple[str, ...]) -> ImageSource:
    paths = {}
    for name in FILES:
        path = find_file(folder, name)
        if path is None:
            raise BadInput(f"{folder} has no {name} or {name}.gz")
        paths[name] = path
    published = {name: Checksum(SIZES[name], sum_) for name, sum_ in zip(FILES, md5, strict=True)}
    contents, is_published = read_files(paths, published)
    splits = []
    shape = None
    for images_name, labels_name in (FILES[:2], FILES[2:]):
        images = _parse(contents[images_name], 3, paths[images_name])
        labels = _parse(contents[labels_name], 1, paths[labels_name]).astype(np.int64)
        if len(images) != len(labels):
            raise BadInput(f"{paths[labels_name]} has {len(labels)} labels, and there are {len(images)} images")
        shape = shape or images.shape[1:]
        if images.shape[1:] != shape:
            raise BadInput(f"{paths[images_name]} has images of {images.shape[1:]}, the others are of {shape}")
        labels = check_labels(labels, len(classes), 0, paths[labels_name])
        splits.append(ImageSplit(labels, in_chunks(images[:, None])))
    assert shape is not None
    return ImageSource(splits[0], splits[1], classes, (1, shape[0], shape[1]), digest_of(contents), is_published)


def _parse(data: bytes, dimensions: int, path: Path) -> NDArray[np.uint8]:
    head = 4 * (1 + dimensions)
    magic = struct.unpack(">I", data[:4])[0] if len(data) >= head else 0
    if magic != BYTES + dimensions:
        raise BadInput(
            f"{path} is no IDX file of bytes: it begins with {magic:#010x}, not {BYTES + dimensions:#010x}"
        )
    sizes = struct.unpack(f">{dimensions}I", data[4:head])
    if len(data) != head + prod(sizes) or not prod(sizes):
        expected = f"{head + prod(sizes)} bytes, of {' x '.join(map(str, sizes))}"
        raise BadInput(f"{path} is damaged: it has {len(data)} bytes, and its header says {expected}")
    return np.frombuffer(data, np.uint8, offset=head).reshape(sizes)
