"""STL-10 in its binary files. Only the labelled images are read: 5,000 to train with, 8,000 to test."""

from pathlib import Path

import numpy as np

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

SHAPE = (3, 96, 96)
IMAGE = 3 * 96 * 96
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
PUBLISHED = {
    "train_X.bin": Checksum(5_000 * IMAGE, "918c2871b30a85fa023e0c44e0bee87f"),
    "train_y.bin": Checksum(5_000, "5a34089d4802c674881badbb80307741"),
    "test_X.bin": Checksum(8_000 * IMAGE, "7f263ba9f9e0b06b93213547f721ac82"),
    "test_y.bin": Checksum(8_000, "36f9794fa4beb8a2c72628de14fa638e"),
}


def read_stl10(folder: Path, _: int) -> ImageSource:
    paths = {name: folder / name for name in PUBLISHED}
    for name, path in paths.items():
        if not path.is_file():
            raise BadInput(f"{folder} has no {name}")
    contents, is_published = read_files(paths, PUBLISHED)
    splits = [_split(contents, paths, name) for name in ("train", "test")]
    return ImageSource(splits[0], splits[1], CLASSES, SHAPE, digest_of(contents), is_published)


def _split(contents: dict[str, bytes], paths: dict[str, Path], name: str) -> ImageSplit:
    data, path = contents[f"{name}_X.bin"], paths[f"{name}_X.bin"]
    if not data or len(data) % IMAGE:
        raise BadInput(f"{path} is damaged: {len(data)} bytes are no whole number of images of {IMAGE}")
    labels = np.frombuffer(contents[f"{name}_y.bin"], np.uint8).astype(np.int64)
    images = np.frombuffer(data, np.uint8).reshape(-1, *SHAPE)
    if len(labels) != len(images):
        raise BadInput(f"{paths[f'{name}_y.bin']} has {len(labels)} labels, and there are {len(images)} images")
    # The files have the columns of an image one after the other.
    return ImageSplit(
        check_labels(labels, len(CLASSES), 1, paths[f"{name}_y.bin"]), in_chunks(images.transpose(0, 1, 3, 2))
    )
