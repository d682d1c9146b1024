"""Real data to train with, from files in their original formats. Nothing is downloaded unless the user asks for
it."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tare.errors import BadInput, unknown
from tare.system.home import home_folder
from tare.workloads.datasets.batches import Shapes, image_shape
from tare.workloads.datasets.cifar import read_cifar10
from tare.workloads.datasets.digits import read_digits
from tare.workloads.datasets.idx import FILES, find_file, read_fashion, read_mnist
from tare.workloads.datasets.prepared import OnImages, PreparedData, prepare
from tare.workloads.datasets.source import ImageSource
from tare.workloads.datasets.stl10 import read_stl10
from tare.workloads.datasets.voc import LISTS, read_voc

# The environment variable that names the folder of the data.
VARIABLE = "TARE_DATA"


class Dataset(NamedTuple):
    """`read` takes the folder of the files and a resolution, which only images of many sizes need. The files are
    in the user's folder or in one of `places` below it; `marker` says whether a folder has them. `sizes` are the
    sizes of workloads that suit the data."""

    title: str
    read: Callable[[Path, int], ImageSource]
    sizes: Mapping[str, int]
    wanted: str = ""
    places: tuple[str, ...] = ()
    marker: Callable[[Path], bool] = Path.is_dir


class ChosenData(NamedTuple):
    """The data that the user named, and the folder of their files, if it was named too."""

    name: str
    folder: str | None = None


def _sizes(classes: int, channels: int, size: int, resolution: int) -> dict[str, int]:
    fitting = {"classes": classes, "channels": channels, "resolution": resolution}
    return fitting | {"features": channels * size * size, "input": size, "steps": size}


def _has(name: str) -> Callable[[Path], bool]:
    return lambda folder: (folder / name).is_file()


def _has_idx(folder: Path) -> bool:
    return find_file(folder, FILES[0]) is not None


_IDX = "train-images-idx3-ubyte, train-labels-idx1-ubyte and both of t10k, also as .gz"
DATASETS: Mapping[str, Dataset] = {
    "digits": Dataset("scikit-learn's handwritten digits", read_digits, _sizes(10, 1, 8, 32)),
    "mnist": Dataset("MNIST", read_mnist, _sizes(10, 1, 28, 28), _IDX, ("MNIST/raw", "mnist", "MNIST"), _has_idx),
    "fashion-mnist": Dataset(
        "Fashion-MNIST", read_fashion, _sizes(10, 1, 28, 28), _IDX, ("FashionMNIST/raw", "fashion-mnist"), _has_idx
    ),
    "cifar10": Dataset(
        "CIFAR-10", read_cifar10, _sizes(10, 3, 32, 32), "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
        ("cifar-10-batches-bin",), _has("test_batch.bin"),
    ),
    "stl10": Dataset(
        "STL-10", read_stl10, _sizes(10, 3, 96, 96), "train_X.bin, train_y.bin, test_X.bin and test_y.bin",
        ("stl10_binary",), _has("train_X.bin"),
    ),
    "voc": Dataset(
        "PASCAL VOC 2012", read_voc, _sizes(20, 3, 300, 300), "ImageSets, Annotations and JPEGImages",
        ("VOCdevkit/VOC2012", "VOC2012"), _has(LISTS["train"]),
    ),
}  # fmt: skip


def get_dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise unknown("data", name, DATASETS)
    return DATASETS[name]


def find_folder(chosen: ChosenData) -> Path:
    """Where the files of a dataset are, in the folder that the user gave or that TARE_DATA names."""
    dataset = get_dataset(chosen.name)
    if not dataset.places:
        return Path()
    given = chosen.folder or os.environ.get(VARIABLE, "")
    if not given:
        raise BadInput(f"{dataset.title} is in files: --data-folder FOLDER (or {VARIABLE}), with {dataset.wanted}")
    root = Path(given).expanduser()
    if not root.is_dir():
        raise BadInput(f"there is no folder {root}")
    folder = next((folder for folder in _places(root, dataset) if dataset.marker(folder)), None)
    if folder is None:
        places = " or ".join(dataset.places)
        raise BadInput(f"{root} has no {dataset.title}: want {dataset.wanted}, there or in {places}")
    return folder


def _places(root: Path, dataset: Dataset) -> Iterator[Path]:
    # Two datasets have files of the same names: the folder that is named after one of them comes first.
    yield from (root / place for place in dataset.places)
    yield root


def prepare_data(chosen: ChosenData, shapes: Shapes, on_images: OnImages = lambda *_: None) -> PreparedData:
    """The data for a workload with these shapes, prepared once under TARE_HOME."""
    dataset = get_dataset(chosen.name)
    shape = shapes.args[0]
    resolution = shape[2] if len(shape) == 4 else dataset.sizes["resolution"]
    source = dataset.read(find_folder(chosen), resolution)
    wanted = image_shape(source.shape, len(source.classes), shapes)
    return prepare(chosen.name, source, wanted, home_folder("data"), on_images)
