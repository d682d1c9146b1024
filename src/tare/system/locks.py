"""Locks between processes: on files, and the one that lets only one tare measure on a machine at a time.

The kernel releases a file lock when its holder dies, however that happens. The package `filelock` does not serve
here: it cannot lock a file of another user that may only be read, and it follows links in a folder like /tmp.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any

import psutil

from tare.errors import BadInput
from tare.system.home import VARIABLE
from tare.system.redaction import redact
from tare.system.text import one_line

POLL_S = 0.05
# Errors of file systems that have no locks, as some network file systems do.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# O_NONBLOCK: the open of a named pipe would block without it.
FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Names the lock file that all tares of a machine share. If empty, only those with one TARE_HOME take turns.
MACHINE_LOCK_VARIABLE = "TARE_LOCK"
# Not tempfile.gettempdir(): that may be a different folder for each user.
MACHINE_LOCK = "/tmp/tare-measuring.lock"
# A process that has just taken the lock may not have written yet who it is.
UNKNOWN_S = 1.0
LONGEST_COMMAND, LONGEST_HOLDER = 60, 4096


class LockedByOther(Exception):
    """Another process holds the lock. `holder` is its pid, if it is known."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"process {holder}" if holder else "another process")
        self.holder = holder


def try_lock(descriptor: int) -> bool | None:
    """Whether this process holds the lock now; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        raise
    return True


class FileLock(FileIO):
    """An open lock file. Closing it releases the lock. OSError if the path is no regular file."""

    def __init__(self, path: Path, mode: int = 0o644, create: bool = True) -> None:
        super().__init__(_open_or_create(path, mode) if create else _open(path))

    def try_acquire(self) -> bool | None:
        """As `try_lock`."""
        return try_lock(self.fileno())

    def acquire(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Waits for the lock. `on_wait` is called before every further attempt, and may raise."""
        while self.try_acquire() is False:
            on_wait()
            time.sleep(POLL_S)


class ExclusiveFile(FileLock):
    """A locked file that holds the pid of its owner, and is removed when the lock is released."""

    def __init__(self, path: Path) -> None:
        """Raises LockedByOther."""
        self._path: Path | None = None
        while True:
            # This closes the file of an attempt before.
            super().__init__(path)
            if self.try_acquire() is False:
                holder = os.pread(self.fileno(), 20, 0)
                self.close()
                raise LockedByOther(int(holder) if holder.isdigit() else None)
            # Its owner may have removed the file between our open and our lock.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(self.fileno())):
                    break
        self._path = path
        # The pid is only for the message of another process, so a full disk does not matter.
        with contextlib.suppress(OSError):
            os.ftruncate(self.fileno(), 0)
            os.pwrite(self.fileno(), str(os.getpid()).encode(), 0)

    def close(self) -> None:
        # Removed while it is still locked, so that no other process has locked the removed file.
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._path = None
        super().close()


@contextlib.contextmanager
def machine_lock(folder: Path, on_wait: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Held during a measurement. If another tare holds it, `on_wait` is called with who that is, once for each
    holder.

    There are two locks, taken in this order: that of the machine, and that of the data folder, for tares in
    containers that share nothing else. Before each stands a queue lock, held only while a process waits. So a
    process that has just measured queues behind those already waiting, and two long runs alternate.
    """
    shared = os.environ.get(MACHINE_LOCK_VARIABLE, MACHINE_LOCK)
    paths = {Path(shared): 0o666} if shared else {}
    paths[folder / "measuring.lock"] = 0o644
    with contextlib.ExitStack() as held:
        for path, mode in paths.items():
            try:
                lock = held.enter_context(FileLock(path, mode))
            except OSError as error:
                if path.parent == folder:
                    raise BadInput(f"cannot lock {path} ({error.strerror}); set {VARIABLE}") from None
                # Without the machine's lock (no such folder, a file only its owner may read) there is the other.
                continue
            with contextlib.ExitStack() as queued:
                wait = _Wait(lock, on_wait)
                with contextlib.suppress(OSError):
                    queued.enter_context(FileLock(path.with_name(f"{path.name}.next"), mode)).acquire(wait)
                lock.acquire(wait)
            held.enter_context(_named_holder(lock))
        yield


class _Wait:
    """Called before every further attempt to take a lock: says whenever another process has taken it."""

    def __init__(self, lock: FileLock, on_wait: Callable[[str], None]) -> None:
        self._lock, self._on_wait = lock, on_wait
        self._began = time.monotonic()
        self._said = ""

    def __call__(self) -> None:
        holder = _read_holder(self._lock)
        if not holder and (self._said or time.monotonic() - self._began < UNKNOWN_S):
            return
        holder = holder or "which one is not known"
        if holder != self._said:
            self._said = holder
            self._on_wait(holder)


@contextlib.contextmanager
def _named_holder(lock: FileLock) -> Iterator[None]:
    """Writes into a lock file who holds it. That is only for the messages of others, so a full disk or a file that
    may only be read does not matter."""
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "command": _command(), "since": time.time()}
    with contextlib.suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        os.pwrite(lock.fileno(), json.dumps(holder).encode(), 0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(lock.fileno(), 0)


def _command() -> str:
    """This process's command up to its first option: any user may read it, and an option may be a secret."""
    program, *arguments = sys.argv or [""]
    path = Path(program)
    words = [path.parent.name if path.name == "__main__.py" else path.name]
    for argument in arguments:
        if argument.startswith("-"):
            break
        words.append(argument)
    return redact(" ".join(words))[:LONGEST_COMMAND]


def _read_holder(lock: FileLock) -> str:
    """Who holds a lock, as far as its file says; empty if it says nothing, or names a process that has ended."""
    try:
        holder: dict[str, Any] = json.loads(os.pread(lock.fileno(), LONGEST_HOLDER, 0))
        pid, host = int(holder["pid"]), str(holder["host"])
        since = datetime.fromtimestamp(float(holder["since"])).astimezone()
        is_here = host == socket.gethostname()
        if is_here and not psutil.pid_exists(pid):
            return ""
        place = "" if is_here else f" on {host}"
        command = str(holder["command"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return ""
    # Anybody may have written this.
    return one_line(f"process {pid}{place} ({command}), since {since:%H:%M:%S}")[:200]


def _open_or_create(path: Path, mode: int) -> int:
    while True:
        with contextlib.suppress(FileNotFoundError):
            return _open(path)
        with contextlib.suppress(FileExistsError):
            # Never O_CREAT alone: in a world-writable folder Linux refuses that for a file of another user.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS, mode)
            with contextlib.suppress(OSError):
                # The mode that was asked for, whatever the user's umask.
                os.fchmod(descriptor, mode)
            return descriptor


def _open(path: Path) -> int:
    try:
        # For writing if possible: NFS locks nothing else.
        descriptor = os.open(path, os.O_RDWR | FLAGS)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS):
            raise
        descriptor = os.open(path, os.O_RDONLY | FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))
