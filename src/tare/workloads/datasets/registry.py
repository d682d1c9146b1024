"""The datasets by name."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.errors import BadInput, unknown


class Images(NamedTuple):
    """Grey pictures, standardised over the whole set, with the number of the class that each belongs to."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: int


def digits() -> Images:
    """The test set of the UCI handwritten digits (1797 pictures of 8x8), as scikit-learn carries it."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput("the data 'digits' comes with scikit-learn: pip install scikit-learn") from None
    found: Any = load_digits()
    pixels = found.images.astype(np.float32)
    return Images((pixels - pixels.mean()) / pixels.std(), found.target.astype(np.int64), 10)


DATASETS: Mapping[str, Callable[[], Images]] = {"digits": digits}


def load(name: str) -> Images:
    if name not in DATASETS:
        raise unknown("data", name, DATASETS)
    return DATASETS[name]()


# Sizes of workloads that suit a dataset, for those that the user leaves open.
SIZES: Mapping[str, Mapping[str, int]] = {
    "digits": {"classes": 10, "channels": 1, "resolution": 32, "features": 64, "input": 8, "steps": 8},
}
