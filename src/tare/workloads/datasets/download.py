"""Downloads a dataset, where the user asks for it, with what torchvision knows of its files and their
checksums."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tare.errors import BadInput, TareError, brief
from tare.system.home import home_folder, make_folder
from tare.workloads.datasets import VARIABLE, ChosenData, find_folder, get_dataset

# The binary version: torchvision has only the one of pickles.
CIFAR10 = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"

Download = Callable[[Any, str], object]
_DOWNLOADS: Mapping[str, Download] = {
    "mnist": lambda datasets, root: datasets.MNIST(root, download=True),
    "fashion-mnist": lambda datasets, root: datasets.FashionMNIST(root, download=True),
    "cifar10": lambda datasets, root: datasets.utils.download_and_extract_archive(
        CIFAR10, root, md5=CIFAR10_MD5, remove_finished=True
    ),
    "stl10": lambda datasets, root: datasets.STL10(root, split="train", download=True),
    "voc": lambda datasets, root: datasets.VOCDetection(root, year="2012", image_set="train", download=True),
}


def download_data(name: str, folder: str | None) -> str:
    """Returns the folder that has the data below it: the user's, that of TARE_DATA, or one of tare's home. Data
    that are there are not downloaded again."""
    dataset = get_dataset(name)
    if name not in _DOWNLOADS:
        raise BadInput(f"--download: {dataset.title} need no files")
    root = folder or os.environ.get(VARIABLE) or str(home_folder("downloads"))
    make_folder(Path(root).expanduser())
    try:
        find_folder(ChosenData(name, root))
    except BadInput:
        _download(name, root)
    return root


def _download(name: str, root: str) -> None:
    try:
        import torchvision
    except ImportError:
        raise BadInput("--download needs torchvision: pip install torchvision") from None
    # What it says must not be mixed with a JSON document.
    with redirect_stdout(sys.stderr):
        try:
            _DOWNLOADS[name](torchvision.datasets, str(Path(root).expanduser()))
        except (OSError, RuntimeError) as error:
            raise TareError(f"the download of {name} failed: {brief(error)}") from None
