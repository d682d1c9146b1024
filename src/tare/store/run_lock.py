"""Locks on runs: two processes that resume the same run would measure the same rounds twice."""

from pathlib import Path
from typing import Self

from tare.errors import BadInput
from tare.store.unsaved_rounds import file_name
from tare.system.home import home_folder
from tare.system.locks import ExclusiveFile, LockedByOther


class RunLocks:
    """File locks that are held until the context or the process ends, however it ends.

    The lock file lies beside a store that is a file, and in TARE_HOME for any other store.
    """

    def __init__(self) -> None:
        self._held: dict[Path, ExclusiveFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lock in self._held.values():
            lock.close()
        self._held = {}

    def acquire(self, store: str, run: str) -> None:
        """Raises BadInput if another process holds the run."""
        path = _lock_folder(store) / f"tare-{file_name(run)}.lock"
        if path in self._held:
            return
        try:
            self._held[path] = ExclusiveFile(path)
        except LockedByOther as owner:
            raise BadInput(f"{owner} is measuring run {run}: wait for it or end it, then use --resume") from None
        except OSError as error:
            raise BadInput(f"cannot lock run {run} with {path} ({error.strerror})") from None


def _lock_folder(store: str) -> Path:
    return home_folder("runs") if "://" in store else Path(store).expanduser().resolve().parent
