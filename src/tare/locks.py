"""Locks on files, between processes. The kernel drops a lock when its holder dies, however that happens."""

import errno
import fcntl

# What a file system says that has no such locks: some of those that computers share over a network.
WITHOUT = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


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
