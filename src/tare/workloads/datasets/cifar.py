"""CIFAR-10 in its binary version: records of a label and 3072 bytes, red, green and blue.

The other version is made of Python pickles, which are never read: unpickling a file runs what it says."""

from pathlib import Path

import numpy as np

from tare.errors import BadInput
from tare.workloads.datasets.source import (
    Checksum,
    ImageSource,
    ImageSplit,
    Pixels,
    check_labels,
    digest_of,
    in_chunks,
    read_files,
)

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TEST = "test_batch.bin"
MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    TEST: "803d5f7f4d78ea53de84dbe85f74fb6d",
}
BATCH_BYTES = 10_000 * RECORD


def read_cifar10(folder: Path, _: int) -> ImageSource:
    """With the training batches that are there: each is a random part of the data."""
    paths = {name: folder / name for name in MD5 if (folder / name).is_file()}
    if TEST not in paths or len(paths) < 2:
        missing = TEST if TEST not in paths else "data_batch_1.bin"
        raise BadInput(f"{folder} has no {missing}")
    published = {name: Checksum(BATCH_BYTES, md5) for name, md5 in MD5.items()}
    contents, is_published = read_files(paths, published)
    parts = {name: _parse(data, paths[name]) for name, data in contents.items()}
    train = np.concatenate([records for name, records in parts.items() if name != TEST])
    splits = []
    for records, path in ((train, folder), (parts[TEST], paths[TEST])):
        labels = check_labels(records[:, 0].astype(np.int64), len(CLASSES), 0, path)
        splits.append(ImageSplit(labels, in_chunks(records[:, 1:].reshape(-1, *SHAPE))))
    return ImageSource(
        splits[0], splits[1], CLASSES, SHAPE, digest_of(contents), is_published and len(paths) == len(MD5)
    )


def _parse(data: bytes, path: Path) -> Pixels:
    if not data or len(data) % RECORD:
        raise BadInput(f"{path} is damaged: {len(data)} bytes are no whole number of records of {RECORD}")
    return np.frombuffer(data, np.uint8).reshape(-1, RECORD)
