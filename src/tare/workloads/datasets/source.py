"""What a dataset's files hold, before it is prepared: images of bytes with the indices of their classes."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput
from tare.system.bounded_files import read_bounded

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
# Images are read, resized and written so many at a time.
CHUNK = 500


class ImageSplit(NamedTuple):
    """The labels of all images, and a function that reads the images: arrays of (n, channels, height, width)."""

    labels: Labels
    read: Callable[[], Iterable[Pixels]]


class ImageSource(NamedTuple):
    """`digest` is that of the files' contents. `is_published` says that every file has its published checksum;
    parts of a dataset, which have other sizes, have none. `shape` is that of an image: channels, height, width."""

    train: ImageSplit
    test: ImageSplit
    classes: Sequence[str]
    shape: tuple[int, int, int]
    digest: str
    is_published: bool


class Checksum(NamedTuple):
    """The size and the MD5 of a published file, unpacked."""

    bytes: int
    md5: str


def in_chunks(images: Pixels) -> Callable[[], Iterable[Pixels]]:
    return lambda: (images[start : start + CHUNK] for start in range(0, len(images), CHUNK))


def read_files(paths: Mapping[str, Path], published: Mapping[str, Checksum]) -> tuple[dict[str, bytes], bool]:
    """The contents of files (unpacked where they are gzip), and whether all of them have their published checksum.
    A file of the published size that has another checksum is damaged: BadInput. One of another size is a part, or
    is refused by the reader of its format."""
    contents, is_published = {}, True
    for name, path in paths.items():
        contents[name] = data = read_bounded(path)
        known = published.get(name)
        if known is None or len(data) != known.bytes:
            is_published = False
        elif (found := hashlib.md5(data, usedforsecurity=False).hexdigest()) != known.md5:
            raise BadInput(
                f"{path} is damaged or of another dataset: its MD5 is {found}, published is {known.md5}"
            )
    return contents, is_published


def digest_of(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in contents.items():
        digest.update(f"{name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def check_labels(labels: Labels, classes: int, first: int, path: Path) -> Labels:
    """The labels counted from 0; BadInput where one is no class."""
    wrong = labels[(labels < first) | (labels >= first + classes)]
    if wrong.size:
        raise BadInput(f"{path} has the label {wrong[0]}; valid are {first} to {first + classes - 1}")
    return labels - first
