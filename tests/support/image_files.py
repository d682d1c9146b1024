"""Small files in the original formats of image datasets, made of random images with known labels."""

import gzip
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.workloads.datasets import ChosenData, prepare_data
from tare.workloads.datasets.batches import Shapes
from tare.workloads.datasets.prepared import PreparedData


class MadeSplit(NamedTuple):
    """Images as (n, channels, height, width), and labels from 0."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def make_split(count: int, channels: int, size: int, classes: int = 10, seed: int = 0) -> MadeSplit:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, channels, size, size), dtype=np.uint8)
    return MadeSplit(images, np.arange(count, dtype=np.int64) % classes)


def idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, train: MadeSplit, test: MadeSplit, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, split in (("train", train), ("t10k", test)):
        for kind, array in (("images-idx3", split.images[:, 0]), ("labels-idx1", split.labels.astype(np.uint8))):
            data, path = idx(array), folder / f"{name}-{kind}-ubyte"
            if packed:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
            else:
                path.write_bytes(data)
    return folder


def write_cifar10(folder: Path, train: MadeSplit, test: MadeSplit) -> Path:
    """Two batches of training images."""
    folder.mkdir(parents=True, exist_ok=True)
    half = len(train.labels) // 2
    parts = {
        "data_batch_1.bin": MadeSplit(train.images[:half], train.labels[:half]),
        "data_batch_2.bin": MadeSplit(train.images[half:], train.labels[half:]),
        "test_batch.bin": test,
    }
    for name, (images, labels) in parts.items():
        rows = images.reshape(len(images), -1)
        (folder / name).write_bytes(np.concatenate([labels[:, None].astype(np.uint8), rows], axis=1).tobytes())
    return folder


def write_stl10(folder: Path, train: MadeSplit, test: MadeSplit) -> Path:
    """Its files have the columns of an image one after the other, and count classes from 1."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in (("train", train), ("test", test)):
        (folder / f"{name}_X.bin").write_bytes(images.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{name}_y.bin").write_bytes((labels + 1).astype(np.uint8).tobytes())
    return folder


def write_voc(folder: Path, train: list[str], test: list[str]) -> Path:
    """An image of one colour for each name of a class; every annotation has a person as its second object."""
    from PIL import Image

    for name in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for split, classes in (("train", train), ("val", test)):
        names = [f"2008_{split}{i}" for i in range(len(classes))]
        (folder / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for i, (name, each) in enumerate(zip(names, classes, strict=True)):
            objects = "".join(f"<object><name>{kind}</name></object>" for kind in (each, "person"))
            text = f"<annotation><size><width>24</width></size>{objects}</annotation>"
            (folder / "Annotations" / f"{name}.xml").write_text(text)
            colour = (40 * i, 80, 200)
            Image.new("RGB", (24 + i, 16), colour).save(folder / "JPEGImages" / f"{name}.jpg", quality=95)
    return folder


def prepared_mnist(folder: Path, images: int = 40, size: int = 28, tests: int = 12) -> PreparedData:
    """Written to the folder, and prepared in tare's home."""
    write_mnist(folder, make_split(images, 1, size), make_split(tests, 1, size, seed=1))
    return prepare_data(ChosenData("mnist", str(folder)), Shapes(((4, 1, size, size),), (4,), 10))
