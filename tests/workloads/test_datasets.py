"""Datasets in their original files: what is read, what is refused, how it is prepared, and in which order."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from image_files import (
    idx,
    make_split,
    prepared_mnist,
    write_cifar10,
    write_mnist,
    write_stl10,
    write_voc,
)

from tare.errors import BadInput, TareError
from tare.workloads.datasets import ChosenData, find_folder, prepare_data, stl10
from tare.workloads.datasets.batches import Shapes, epoch_order, image_shape, make_batch, steps_order
from tare.workloads.datasets.download import download_data
from tare.workloads.datasets.idx import read_mnist
from tare.workloads.datasets.prepared import PreparedData, fit
from tare.workloads.datasets.source import Checksum, ImageSource

GREY, COLOUR = make_split(7, 1, 28), make_split(6, 3, 32)
LARGE = make_split(4, 3, 96)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TARE_DATA", raising=False)
    return tmp_path / "home"


def read_all(source: ImageSource) -> np.ndarray:
    return np.concatenate(list(source.train.read()))


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    source = read_mnist(write_mnist(tmp_path / "raw", GREY, GREY, packed), 0)
    np.testing.assert_array_equal(read_all(source), GREY.images)
    np.testing.assert_array_equal(source.train.labels, GREY.labels)
    assert (source.shape, source.is_published) == ((1, 28, 28), False)


def test_cifar10_has_all_batches_that_are_there(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-bin", COLOUR, COLOUR)
    data = prepare_data(ChosenData("cifar10", str(tmp_path)), Shapes(((2, 3, 32, 32),), (2,), 10))
    assert (data.header.train, data.header.test, data.header.shape) == (6, 6, (3, 32, 32))
    np.testing.assert_array_equal(data.train.labels, COLOUR.labels)
    np.testing.assert_allclose(bytes_of(data), COLOUR.images, atol=1e-3)


def test_stl10_is_turned_from_columns_to_rows(tmp_path: Path) -> None:
    write_stl10(tmp_path / "stl10_binary", LARGE, LARGE)
    data = prepare_data(ChosenData("stl10", str(tmp_path)), Shapes(((2, 3, 96, 96),), (2,), 10))
    np.testing.assert_array_equal(data.train.labels, LARGE.labels)
    np.testing.assert_allclose(bytes_of(data), LARGE.images, atol=1e-3)


def test_voc_is_classified_by_the_first_object_of_an_image(tmp_path: Path) -> None:
    write_voc(tmp_path / "VOCdevkit" / "VOC2012", ["dog", "aeroplane", "tvmonitor"], ["cat", "person"])
    data = prepare_data(ChosenData("voc", str(tmp_path)), Shapes(((2, 3, 8, 8),), (2,), 20))
    assert [data.header.classes[label] for label in data.train.labels] == ["dog", "aeroplane", "tvmonitor"]
    assert [data.header.classes[label] for label in data.test.labels] == ["cat", "person"]
    # The red of image i is 40 * i, whatever its width was.
    np.testing.assert_allclose(bytes_of(data)[:, 0].mean(axis=(1, 2)), [0, 40, 80], atol=3)


def test_digits_are_split_into_a_fifth_and_the_rest() -> None:
    data = prepare_data(ChosenData("digits"), Shapes(((2, 1, 8, 8),), (2,), 10))
    assert (data.header.train, data.header.test, data.header.is_published) == (1438, 359, True)
    assert set(data.train.labels.tolist()) == set(data.test.labels.tolist()) == set(range(10))


def bytes_of(data: PreparedData) -> np.ndarray:
    """The training images as bytes again."""
    pixels = data.train.pixels(np.arange(data.header.train))
    mean, deviation = (np.array(values)[:, None, None] for values in (data.header.mean, data.header.deviation))
    restored: np.ndarray = pixels * deviation + mean
    return restored


def test_images_are_standardised_over_the_training_split(tmp_path: Path) -> None:
    data = prepared_mnist(tmp_path / "raw")
    every = data.train.pixels(np.arange(data.header.train)).astype(np.float64)
    assert data.train.pixels(slice(0, 2)).dtype == np.float32
    assert every.mean() == pytest.approx(0, abs=1e-6)
    assert every.std() == pytest.approx(1, abs=1e-6)
    train = make_split(40, 1, 28).images.astype(np.float64)
    assert data.header.mean == pytest.approx([train.mean()])
    assert data.header.deviation == pytest.approx([train.std()])


def test_data_are_prepared_once_for_each_shape(tmp_path: Path, home: Path) -> None:
    folder = write_mnist(tmp_path / "raw", GREY, GREY)
    chosen, seen = ChosenData("mnist", str(folder)), list[int]()
    for _ in range(2):
        prepare_data(chosen, Shapes(((2, 784),), (2,), 10), lambda done, _: seen.append(done))
    assert seen == [7, 14]
    prepare_data(chosen, Shapes(((2, 3, 32, 32),), (2,), 10))
    assert len(list((home / "data").iterdir())) == 2


def test_prepared_data_of_another_size_are_refused(tmp_path: Path) -> None:
    data = prepared_mnist(tmp_path / "raw")
    labels = data.folder / "test.labels.i64"
    labels.write_bytes(labels.read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"test\.labels\.i64 has 95 bytes, and its header says 96"):
        PreparedData(data.folder)


Damage = Callable[[Path], object]


def cut(name: str, by: int = 1) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-by])


def replace(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (
            "mnist",
            cut("train-images-idx3-ubyte"),
            r"has 5503 bytes, and its header says 5504 bytes, of 7 x 28 x 28",
        ),
        ("mnist", replace("t10k-images-idx3-ubyte", b"\x89PNG....12345678"), "it begins with 0x89504e47"),
        (
            "mnist",
            replace("t10k-labels-idx1-ubyte", idx(np.zeros(6, np.uint8))),
            "6 labels, and there are 7 images",
        ),
        (
            "mnist",
            replace("t10k-labels-idx1-ubyte", idx(np.full(7, 10, np.uint8))),
            "the label 10; valid are 0 to 9",
        ),
        ("mnist", remove("t10k-labels-idx1-ubyte"), "has no t10k-labels-idx1-ubyte"),
        ("mnist", remove("train-images-idx3-ubyte"), "has no MNIST: want train-images-idx3-ubyte"),
        ("cifar10", cut("data_batch_2.bin"), "9218 bytes are no whole number of records of 3073"),
        ("cifar10", remove("test_batch.bin"), "has no CIFAR-10"),
        ("cifar10", replace("test_batch.bin", b"\x0b" + bytes(range(256)) * 12), "the label 11; valid are 0 to 9"),
        ("stl10", cut("train_X.bin"), "no whole number of images of 27648"),
        ("stl10", replace("test_y.bin", b"\x00\x01\x02\x03"), "the label 0; valid are 1 to 10"),
        ("stl10", cut("train_y.bin"), "3 labels, and there are 4 images"),
        ("voc", replace("Annotations/2008_train0.xml", b"<annotation>"), "is no annotation of VOC"),
        ("voc", replace("Annotations/2008_val0.xml", b"<a><object><name>mouse</name></object></a>"), "'mouse'"),
        ("voc", cut("JPEGImages/2008_train0.jpg", 300), "no JPEG image, or damaged"),
        ("voc", remove("JPEGImages/2008_val0.jpg"), "cannot read"),
        ("voc", replace("ImageSets/Main/val.txt", b"../../../etc/passwd"), "which is no image of VOC"),
    ],
)
def test_damaged_files_are_refused_in_a_line(tmp_path: Path, name: str, damage: Damage, message: str) -> None:
    folder = tmp_path / "files"
    if name == "voc":
        write_voc(folder, ["dog"], ["cat"])
    else:
        write, split = {
            "mnist": (write_mnist, GREY),
            "cifar10": (write_cifar10, COLOUR),
            "stl10": (write_stl10, LARGE),
        }[name]
        write(folder, split, split)
    damage(folder)
    size = {"mnist": (1, 28), "cifar10": (3, 32), "stl10": (3, 96), "voc": (3, 8)}[name]
    with pytest.raises(BadInput, match=message) as caught:
        prepare_data(ChosenData(name, str(folder)), Shapes(((2, size[0], size[1], size[1]),), (2,), 20))
    assert "\n" not in str(caught.value)


def test_a_file_of_the_published_size_has_the_published_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_stl10(tmp_path, LARGE, LARGE)
    right = {
        name: Checksum((folder / name).stat().st_size, hashed((folder / name).read_bytes()))
        for name in stl10.PUBLISHED
    }
    monkeypatch.setattr(stl10, "PUBLISHED", right)
    assert stl10.read_stl10(folder, 0).is_published
    data = bytearray((folder / "test_X.bin").read_bytes())
    data[1000] ^= 1
    (folder / "test_X.bin").write_bytes(data)
    with pytest.raises(BadInput, match=r"test_X\.bin is damaged or of another dataset: its MD5 is"):
        stl10.read_stl10(folder, 0)


def hashed(data: bytes) -> str:
    import hashlib

    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_the_folder_is_the_user_s_or_that_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = write_mnist(tmp_path / "MNIST" / "raw", GREY, GREY)
    assert find_folder(ChosenData("mnist", str(raw))) == raw
    assert find_folder(ChosenData("mnist", str(tmp_path))) == raw
    with pytest.raises(BadInput, match=r"--data-folder FOLDER \(or TARE_DATA\)"):
        find_folder(ChosenData("mnist"))
    monkeypatch.setenv("TARE_DATA", str(tmp_path))
    assert find_folder(ChosenData("mnist")) == raw
    with pytest.raises(BadInput, match="has no Fashion-MNIST"):
        find_folder(ChosenData("fashion-mnist"))
    with pytest.raises(BadInput, match="there is no folder"):
        find_folder(ChosenData("mnist", str(tmp_path / "nowhere")))
    with pytest.raises(BadInput, match="valid: cifar10, digits, fashion-mnist, mnist, stl10, voc"):
        find_folder(ChosenData("minst"))


def test_small_images_are_enlarged_by_repeating_pixels_and_channels() -> None:
    images = make_split(2, 1, 4).images
    fitted = fit(images, (3, 8, 8))
    for channel in range(3):
        np.testing.assert_array_equal(fitted[0, channel], np.kron(images[0, 0], np.ones((2, 2), np.uint8)))


def test_rows_are_time_steps_and_targets_one_hot(tmp_path: Path) -> None:
    data = prepared_mnist(tmp_path / "raw", size=6)
    chosen = np.array([3, 1])
    x, y = make_batch(data.train, chosen, Shapes(((6, 2, 6),), (6, 2, 12)))
    pixels = data.train.pixels(chosen)
    for i, image in enumerate(chosen):
        np.testing.assert_array_equal(x[:, i], pixels[i, 0])
        assert y[:, i].argmax(axis=1).tolist() == [data.train.labels[image]] * 6
    assert y.sum() == 6 * 2


def test_a_batch_is_contiguous_float32(tmp_path: Path) -> None:
    data = prepared_mnist(tmp_path / "raw", size=6)
    for shapes in (Shapes(((2, 36),), (2,)), Shapes(((2, 1, 6, 6),), (2,)), Shapes(((6, 2, 6),), (6, 2, 12))):
        for array in make_batch(data.train, np.array([5, 4]), shapes):
            assert array.dtype == np.float32
            assert array.flags.c_contiguous


@pytest.mark.parametrize(
    ("native", "shapes", "message"),
    [
        ((1, 4, 4), Shapes(((2, 15),), (2,), 3), "features=16"),
        ((1, 4, 4), Shapes(((3, 2, 4),), (3, 2, 6)), "steps=4"),
        ((1, 4, 4), Shapes(((4, 2, 4),), (4, 2, 2)), "hidden=3"),
        ((1, 4, 4), Shapes(((2, 16),), (2,), 2), "classes=3"),
        ((1, 4, 4), Shapes(((2, 16), (2, 16)), (2,)), "2 inputs"),
        ((1, 4, 4), Shapes(((2, 1, 4, 4, 4),), (2,)), "no image fits"),
        ((3, 4, 4), Shapes(((2, 1, 28, 28),), (2,), 10), "an image has 3 channels, and this workload reads 1"),
    ],
)
def test_unfitting_shape_is_refused_with_the_fitting_size(
    native: tuple[int, int, int], shapes: Shapes, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        image_shape(native, 3, shapes)


def test_every_epoch_and_run_has_an_order_of_its_own_and_each_image_once() -> None:
    orders = [epoch_order(103, 10, run, epoch) for run in range(2) for epoch in (1, 2)]
    assert len({order.tobytes() for order in orders}) == 4
    for order in orders:
        assert len(order) == len(set(order.tolist())) == 100
        assert set(order.tolist()) <= set(range(103))
    np.testing.assert_array_equal(orders[0], epoch_order(103, 10, 0, 1))
    with pytest.raises(BadInput, match="9 training images, fewer than a batch of 10"):
        epoch_order(9, 10, 0, 1)


def test_every_image_is_used_before_one_is_repeated() -> None:
    order = steps_order(5, 2, 5).tolist()
    assert sorted(order[:5]) == sorted(order[5:]) == [0, 1, 2, 3, 4]


class PretendedDatasets:
    """What torchvision offers, without a network."""

    def __init__(self) -> None:
        self.downloads = 0

    def MNIST(self, root: str, download: bool) -> None:
        assert download
        self.downloads += 1
        print("a word of torchvision's")
        write_mnist(Path(root) / "MNIST" / "raw", GREY, GREY)

    def STL10(self, root: str, split: str, download: bool) -> None:  # noqa: ARG002
        raise RuntimeError("File not found or corrupted.\nTry again")


def test_a_download_is_made_once_and_says_nothing_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torchvision = pytest.importorskip("torchvision")
    pretended = PretendedDatasets()
    monkeypatch.setattr(torchvision, "datasets", pretended)
    for _ in range(2):
        root = download_data("mnist", str(tmp_path / "new"))
        assert find_folder(ChosenData("mnist", root)) == tmp_path / "new" / "MNIST" / "raw"
    assert pretended.downloads == 1
    assert capsys.readouterr().out == ""
    with pytest.raises(TareError, match="the download of stl10 failed: File not found or corrupted"):
        download_data("stl10", None)
    with pytest.raises(BadInput, match="need no files"):
        download_data("digits", None)
