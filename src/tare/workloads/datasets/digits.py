"""The test set of the UCI handwritten digits (1,797 images of 8x8), which comes with scikit-learn."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tare.errors import BadInput
from tare.workloads.datasets.source import ImageSource, ImageSplit, in_chunks

# One image of so many is for testing. Its files are sorted by writer, so the images are shuffled first.
TEST_SHARE = 5
SEED = 20_260_103


def read_digits(_folder: Path, _: int) -> ImageSource:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput("the data 'digits' comes with scikit-learn: pip install scikit-learn") from None
    bunch: Any = load_digits()
    images, labels = bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(labels))
    tests, trains = np.split(order, [len(order) // TEST_SHARE])
    train, test = (ImageSplit(labels[chosen], in_chunks(images[chosen])) for chosen in (trains, tests))
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    return ImageSource(train, test, tuple(map(str, range(10))), (1, 8, 8), digest, is_published=True)
