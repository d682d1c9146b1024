"""Locks on files, between processes. The kernel drops a lock when its holder dies, however that happens."""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

# What a file system says that has no such locks: some of those that computers share over a network.
WITHOUT = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

# Without O_NONBLOCK a pipe of that name would keep us waiting.
FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_lock(path: Path, mode: int = 0o644) -> int:
    """The descriptor of a file to lock, made if it is not there. It may be another user's: to read it is enough.
    What is no plain file, or only a link to one, is an OSError."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return open_existing(path)
        with contextlib.suppress(FileExistsError):
            # Never O_CREAT alone: in a folder for everybody Linux refuses that for another user's file.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS, mode)
            with contextlib.suppress(OSError):
                # As it was asked for, whatever the user's mask.
                os.fchmod(descriptor, mode)
            return descriptor


def open_existing(path: Path) -> int:
    try:
        # For writing if possible: over NFS nothing else can be locked.
        descriptor = os.open(path, os.O_RDWR | FLAGS)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS):
            raise
        descriptor = os.open(path, os.O_RDONLY | FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a plain file", str(path))


def try_lock(descriptor: int) -> bool | None:
    """Whether this process has the lock now; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in WITHOUT:
            return None
        raise
    return True
