"""PASCAL VOC 2012 as a classification of images, as the abstraction paper's programs had it: the whole image,
scaled to a square, and the class of the first object that its annotation lists. The split is the official one,
train against val. (The paper's C++ programs took the first 80 % of all files instead.)"""

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from tare.errors import BadInput, brief
from tare.system.bounded_files import read_bounded
from tare.workloads.datasets.source import CHUNK, ImageSource, ImageSplit, Pixels

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
LISTS = {"train": "ImageSets/Main/train.txt", "test": "ImageSets/Main/val.txt"}
# Bytes of a list, an annotation and an image: far more than any of the dataset.
LARGEST_LIST, LARGEST_ANNOTATION, LARGEST_IMAGE = 1 << 24, 1 << 20, 1 << 26


def read_voc(folder: Path, resolution: int) -> ImageSource:
    digest = hashlib.sha256()
    splits = []
    for list_name in LISTS.values():
        names = read_bounded(folder / list_name, LARGEST_LIST).decode(errors="replace").split()
        if not names:
            raise BadInput(f"{folder / list_name} names no image")
        labels = []
        for name in names:
            if "/" in name or name.startswith("."):
                raise BadInput(f"{folder / list_name} names '{name[:60]}', which is no image of VOC")
            path = folder / "Annotations" / f"{name}.xml"
            annotation = read_bounded(path, LARGEST_ANNOTATION)
            labels.append(_first_object(annotation, path))
            digest.update(annotation)
            digest.update(read_bounded(_image(folder, name), LARGEST_IMAGE))
        splits.append(ImageSplit(np.array(labels, np.int64), _Decoder(folder, names, resolution)))
    # No checksum of single files is published.
    return ImageSource(
        splits[0], splits[1], CLASSES, (3, resolution, resolution), digest.hexdigest(), is_published=False
    )


def _image(folder: Path, name: str) -> Path:
    return folder / "JPEGImages" / f"{name}.jpg"


def _first_object(annotation: bytes, path: Path) -> int:
    try:
        name = ElementTree.fromstring(annotation).findtext("object/name")
    except (ElementTree.ParseError, ValueError) as error:
        raise BadInput(f"{path} is no annotation of VOC: {brief(error)}") from None
    if name not in CLASSES:
        raise BadInput(f"{path}: its first object is '{str(name)[:60]}' (valid: {', '.join(CLASSES)})")
    return CLASSES.index(name)


class _Decoder:
    """Reads the images of a split when it is called."""

    def __init__(self, folder: Path, names: Sequence[str], resolution: int) -> None:
        self._folder, self._names, self._resolution = folder, names, resolution

    def __call__(self) -> Iterable[Pixels]:
        for start in range(0, len(self._names), CHUNK // 10):
            yield np.stack(list(self._decode(self._names[start : start + CHUNK // 10])))

    def _decode(self, names: Sequence[str]) -> Iterator[Pixels]:
        try:
            from PIL import Image
        except ImportError:
            raise BadInput("the images of 'voc' are JPEG files: pip install pillow") from None
        for name in names:
            path = _image(self._folder, name)
            data = io.BytesIO(read_bounded(path, LARGEST_IMAGE))
            try:
                image = Image.open(data, formats=("JPEG",)).convert("RGB")
                scaled = image.resize((self._resolution, self._resolution), Image.Resampling.BILINEAR)
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
                raise BadInput(f"{path} is no JPEG image, or damaged: {brief(error)}") from None
            yield np.asarray(scaled, np.uint8).transpose(2, 0, 1)
