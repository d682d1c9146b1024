"""Files that are written whole or not at all, and never put in the place of what is no file."""

import gzip
import os
import threading
from pathlib import Path

import pytest

from tare.errors import BadInput
from tare.report.files import check_apart, check_writable, replacing, several_files, write_whole


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "records.json.gz"
    write_whole(path, "[ä]")
    assert gzip.decompress(path.read_bytes()).decode() == "[ä]"
    written = path.read_bytes()
    write_whole(path, "[ä]")
    assert path.read_bytes() == written


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(path)
    write_whole(link, "text")
    assert link.is_symlink()
    assert path.read_text() == "text"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join()
    assert read == ["text"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["missing/page.html", "file/page.html", "."])
def test_where_nothing_can_be_written_one_line_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write .*: "):
        write_whole(tmp_path / name, "text")
    with pytest.raises(BadInput, match=r"cannot write .*: "):
        check_writable(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_where_something_can_be_written_nothing_is(tmp_path: Path) -> None:
    check_writable(tmp_path / "page.html")
    os.mkfifo(tmp_path / "pipe")
    check_writable(tmp_path / "pipe")
    assert several_files(tmp_path / "pipe", [["a"], ["b"]]) == [tmp_path / "pipe"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_is_written_once_and_not_read_as_well(tmp_path: Path) -> None:
    read, page, null = tmp_path / "t.json", tmp_path / "page.html", Path("/dev/null")
    check_apart([page, null, null], [read])
    (tmp_path / "link").symlink_to(read)
    for paths in ([page, page], [tmp_path / "link"], [tmp_path / "." / "x" / ".." / "t.json"]):
        with pytest.raises(BadInput, match=r"cannot write .*; name another file"):
            check_apart(paths, [read])


@pytest.mark.parametrize(
    ("name", "parts", "expected"),
    [
        ("a.svg", [["mlp", "infer"]], ["a.svg"]),
        ("a.svg", [["mlp", "infer"], ["dqn", "infer"]], ["a-mlp.svg", "a-dqn.svg"]),
        ("a.svg", [["mlp", "infer"], ["mlp", "train"]], ["a-infer.svg", "a-train.svg"]),
        ("a.svg", [["mlp", "x"], ["dqn", "x"], ["dqn", "y"]], ["a-mlp-x.svg", "a-dqn-x.svg", "a-dqn-y.svg"]),
        ("a.v2.json.gz", [["p", "compile:max"], ["p", "e/f"]], ["a.v2-compile-max.json.gz", "a.v2-e-f.json.gz"]),
        ("a.svg", [["t"], ["t"], ["u"]], ["a-t.svg", "a-t-2.svg", "a-u.svg"]),
        ("a", [["t"], ["u", "long"]], ["a-t", "a-u"]),
    ],
)
def test_several_files_are_told_apart_by_as_little_as_does(
    tmp_path: Path, name: str, parts: list[list[str]], expected: list[str]
) -> None:
    assert several_files(tmp_path / name, parts) == [tmp_path / one for one in expected]


def test_a_long_name_is_one_that_a_disk_takes(tmp_path: Path) -> None:
    for path in several_files(tmp_path / "a.svg", [["x" * 300 + "1"], ["x" * 300 + "2"]]):
        write_whole(path, "text")
    assert len(list(tmp_path.iterdir())) == 2
