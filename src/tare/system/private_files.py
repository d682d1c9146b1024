"""Files and folders that only their owner may read, whatever the umask allows."""

import os
from contextlib import suppress
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def open_private(path: str | Path, flags: int) -> int:
    """The `opener` for open() and FileIO: a new file is private from its first moment. It never follows a link,
    which another user may have put into a shared folder such as /tmp."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)


def create_private(path: Path) -> None:
    """Makes an empty private file, unless there is one already. Where that fails, so does the program that would
    write it, with the better message."""
    with suppress(OSError):
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))


def write_private(path: Path, data: bytes) -> None:
    with open(path, "wb", opener=open_private) as file:
        file.write(data)


def replace_private(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a reader sees the old content or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with open(partial, "wb", opener=open_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def make_private_folder(path: Path) -> None:
    """Makes the folder and its missing parents. OSError where that fails, or where it is no folder."""
    try:
        path.mkdir(FOLDER_MODE)
    except FileNotFoundError:
        make_private_folder(path.parent)
        path.mkdir(FOLDER_MODE, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise
