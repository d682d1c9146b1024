"""Measurements on one machine take turns, whatever data folders and users they belong to."""

import json
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import wait_until
from users import NOBODY, acting_as_nobody

from tare.errors import BadInput
from tare.system.locks import MACHINE_LOCK, MACHINE_LOCK_VARIABLE, POLL_S, FileLock, machine_lock


class Waits(Exception):
    pass


def waits(holder: str) -> None:
    raise Waits(holder)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the lock of this test's machine is."""
    monkeypatch.setenv(MACHINE_LOCK_VARIABLE, str(tmp_path / "machine.lock"))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    return tmp_path / "machine.lock"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that any user may enter and write to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def test_two_data_folders_take_turns(place: Path, tmp_path: Path) -> None:
    with machine_lock(tmp_path / "one"), pytest.raises(Waits), machine_lock(tmp_path / "other", waits):
        pass
    with machine_lock(tmp_path / "other", waits):
        assert place.exists()


def test_without_a_lock_of_the_machine_those_of_one_data_folder_take_turns(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.parent.joinpath("elsewhere").touch()
    for none in ("", "/no/such/folder/lock", str(tmp_path / "elsewhere" / "lock")):
        monkeypatch.setenv(MACHINE_LOCK_VARIABLE, none)
        with machine_lock(tmp_path / "one"):
            with pytest.raises(Waits), machine_lock(tmp_path / "one", waits):
                pass
            with machine_lock(tmp_path / "other", waits):
                pass
    assert not place.exists()


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_what_is_no_plain_file_is_left_alone(place: Path, tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "precious"
    if kind == "link":
        precious.write_text("kept")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(precious)
    with machine_lock(tmp_path / "one", waits), machine_lock(tmp_path / "other", waits):
        assert precious.exists() == (kind == "link")
    assert kind != "link" or precious.read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_users_take_turns_and_a_file_of_one_of_them_stops_nobody(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = open_folder / "machine.lock"
    monkeypatch.setenv(MACHINE_LOCK_VARIABLE, str(shared))
    homes = [open_folder / "root", open_folder / "nobody"]
    for home in homes:
        home.mkdir()
    os.chown(homes[1], NOBODY, -1)
    before = os.umask(0o077)
    try:
        with machine_lock(homes[0]), acting_as_nobody(), pytest.raises(Waits), machine_lock(homes[1], waits):
            pass
    finally:
        os.umask(before)
    assert shared.stat().st_mode & 0o777 == 0o666, "anybody may lock it, whatever the mask of who came first"
    shared.chmod(0o600)
    with machine_lock(homes[0]), acting_as_nobody(), machine_lock(homes[1], waits):
        pass


def test_the_place_is_the_same_for_every_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere/else")
    assert Path(MACHINE_LOCK).is_absolute()
    assert "somewhere" not in MACHINE_LOCK


@pytest.mark.usefixtures("place")
def test_a_data_folder_that_cannot_be_locked_is_said_in_one_line(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    said = rf"^cannot lock {re.escape(str(open_folder))}/measuring.lock \(Permission denied\); set TARE_HOME$"
    with acting_as_nobody(), pytest.raises(BadInput, match=said), machine_lock(open_folder):
        pass


def test_who_has_just_measured_waits_behind_who_waits(place: Path, tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def other() -> None:
        with machine_lock(tmp_path / "other", lambda _: waiting.set()):
            order.append("other")

    thread = threading.Thread(target=other)
    with machine_lock(tmp_path / "one"):
        thread.start()
        assert waiting.wait(60)
    with machine_lock(tmp_path / "one"):
        order.append("one again")
    thread.join(60)
    assert order == ["other", "one again"]
    assert place.exists()


def test_who_holds_the_lock_is_said_once(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["/opt/bin/tare", "run", "resnet50", "--store", "postgresql://me:hunter2@host/x"]
    )
    said: list[str] = []
    with machine_lock(tmp_path / "one"):
        thread = threading.Thread(target=take, args=(tmp_path / "other", said))
        thread.start()
        wait_until(lambda: bool(said))
        time.sleep(3 * POLL_S)
    thread.join(60)
    (holder,) = said
    assert re.fullmatch(rf"process {os.getpid()} \(tare run resnet50\), since \d\d:\d\d:\d\d", holder)
    assert place.read_bytes() == b"", "nobody holds it now"


def take(folder: Path, said: list[str]) -> None:
    with machine_lock(folder, said.append):
        pass


HOLDER = {"pid": os.getpid(), "host": socket.gethostname(), "command": "tare run mlp", "since": 0.0}


UNKNOWN = "which one is not known"
# Pytest workers must agree on names, and these hold a pid.
CONTENTS = {
    "this process": (json.dumps(HOLDER), rf"process {os.getpid()} \(tare run mlp\), since "),
    "another machine": (
        json.dumps(HOLDER | {"host": "elsewhere", "pid": 77}), r"process 77 on elsewhere \(tare run mlp\), since "
    ),
    # What somebody else may have left there, or an earlier holder that was killed.
    "a process that has ended": (json.dumps(HOLDER | {"pid": 2**22 + 1}), UNKNOWN),
    "no moment": (json.dumps(HOLDER | {"since": 1e300}), UNKNOWN),
    "control characters": (
        json.dumps(HOLDER | {"command": "\x1b[2J\n" + "x" * 3000}), rf"process {os.getpid()} \([^\x1b\n]*"
    ),
    "nested": ("[" * 4000, UNKNOWN),
    "null characters": ("\0" * 50, UNKNOWN),
    "nothing": ("", UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_whatever_is_in_the_file_of_a_lock_can_be_said(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content, said = CONTENTS[name]
    monkeypatch.setattr("tare.system.locks.UNKNOWN_S", 0.0)
    with FileLock(place) as lock:
        lock.acquire()
        place.write_text(content)
        with pytest.raises(Waits, match=said) as caught, machine_lock(tmp_path / "one", waits):
            pass
    assert len(str(caught.value)) <= 200


def test_a_lock_file_that_may_only_be_read_is_a_lock_all_the_same(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = open_folder / "machine.lock"
    monkeypatch.setenv(MACHINE_LOCK_VARIABLE, str(shared))
    shared.touch(mode=0o444)
    (open_folder / "home").mkdir(mode=0o777)
    (open_folder / "home").chmod(0o777)
    with acting_as_nobody(), machine_lock(open_folder / "home", waits):
        assert shared.read_bytes() == b""
