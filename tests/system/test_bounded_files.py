"""What is read is bounded: a compressed file that expands out of all proportion is refused in one line."""

import gzip
import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from tare.errors import BadInput
from tare.system import bounded_files
from tare.system.bounded_files import read_bounded, read_json


def make_bomb(path: Path, piece: bytes, megabytes: int = 200) -> Path:
    """Members of gzip may follow each other."""
    path.write_bytes(gzip.compress(piece * ((1 << 20) // len(piece))) * megabytes)
    return path


def test_a_bomb_is_refused_with_little_memory(tmp_path: Path) -> None:
    path = make_bomb(tmp_path / "a.json.gz", b" ")
    tracemalloc.start()
    try:
        with pytest.raises(BadInput) as caught:
            read_bounded(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value) == f"{path} expands to more than 50 times its size, and is not read"


def test_the_name_of_a_bomb_does_not_matter(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expands"):
        read_bounded(make_bomb(tmp_path / "a.json", b"0"))


def test_a_bomb_behind_much_honest_data_is_refused(tmp_path: Path) -> None:
    path = make_bomb(tmp_path / "a.gz", b"x")
    honest = gzip.compress(os.urandom(1 << 20))
    path.write_bytes(honest + path.read_bytes())
    with pytest.raises(BadInput, match="expands"):
        read_bounded(path)


def test_a_bomb_in_a_pipe_is_refused(tmp_path: Path) -> None:
    bomb, pipe = make_bomb(tmp_path / "a.gz", b"x", 40), tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        # The reader may have gone before everything is written.
        try:
            pipe.write_bytes(bomb.read_bytes())
        except BrokenPipeError:
            return

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(BadInput, match="expands"):
        read_bounded(pipe)
    writer.join()


def test_an_archive_in_an_archive_is_unpacked_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    inner = gzip.compress(b"[]")
    path.write_bytes(gzip.compress(inner))
    assert read_bounded(path) == inner


def test_ordinary_files_are_read_whole(tmp_path: Path) -> None:
    text = b"".join(b'{"wall_ns": %d}, ' % (i * 7919 % 1_000_003) for i in range(100_000))
    path = tmp_path / "a.json.gz"
    for stored in (text, gzip.compress(text), gzip.compress(text[:500_000]) + gzip.compress(text[500_000:])):
        path.write_bytes(stored)
        assert read_bounded(path) == read_json(path) == text


@pytest.mark.parametrize("largest", [2 << 20, 2 << 30])
def test_a_sparse_file_is_refused_at_once(tmp_path: Path, largest: int) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for each in (path, Path("/dev/zero")):
        with pytest.raises(BadInput, match=f"{each} holds no text"):
            read_bounded(each, largest)


def test_a_file_beyond_the_largest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"x" * (3 << 20))
    with pytest.raises(BadInput, match=rf"{path} is too large: more than 2 MB"):
        read_bounded(path, 2 << 20)


@pytest.mark.parametrize("piece", [b",0", b",[]", b',"k":0', b"{", b"["])
def test_a_document_of_too_many_values_is_refused(tmp_path: Path, piece: bytes) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"a": [0' + piece * 2_100_000, compresslevel=1))
    with pytest.raises(BadInput, match=r"a\.json\.gz has too many values for its size"):
        read_json(path)


def test_a_large_plain_file_may_have_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_files, "FEW_VALUES", 10)
    path = tmp_path / "a.json"
    path.write_bytes(b"[0" + b", 0" * 1_000 + b"]")
    assert len(read_json(path)) == 3_003


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8bno gzip", gzip.compress(os.urandom(999))[:-9]])
def test_damaged_data_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_bounded(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
