"""The runs this process works on. Another process that resumed one of them would measure the same rounds."""

import contextlib
import os
from pathlib import Path
from typing import Self

from tare.errors import BadInput
from tare.store.unsaved_rounds import file_name
from tare.system.home import home_folder
from tare.system.locks import try_lock


class Claims:
    """Locks on files that last as long as the context, or the process: one that is killed leaves its runs free.

    They keep apart what sees the same file: beside a store that is a file, and in TARE_HOME for any other.
    """

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path, descriptor in self._held.items():
            # While it is still locked: what is removed here is no file that somebody else has locked.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)
        self._held = {}

    def take(self, store: str, run: str) -> None:
        """BadInput where another process works on the run."""
        path = _place(store) / f"tare-{file_name(run)}.lock"
        if path in self._held:
            return
        try:
            self._held[path] = _lock(path, run)
        except OSError as error:
            raise BadInput(f"cannot lock run {run} with {path} ({error.strerror})") from None


def _place(store: str) -> Path:
    return home_folder("runs") if "://" in store else Path(store).expanduser().resolve().parent


def _lock(path: Path, run: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            if try_lock(descriptor) is False:
                raise BadInput(_refusal(run, os.pread(descriptor, 20, 0)))
            if _is_at(path, descriptor):
                # Only for the message above: where the disk is full, that does without.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Its holder ended and removed the file between our opening and locking it.
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _refusal(run: str, holder: bytes) -> str:
    who = f"process {int(holder)}" if holder.isdigit() else "another process"
    return f"{who} is at work on run {run}: let it finish or end it, then --resume goes on from there"
