"""Append-only files of JSON lines that survive a kill or a full disk: a line is there whole or not at all."""

import os
from pathlib import Path
from typing import Self


class AppendOnlyFile:
    """Opened for appending, made if it is not there. OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)

    def append(self, line: bytes) -> None:
        """Writes one line and waits until it is on disk. A partial line would corrupt the next one, so it is
        removed again: OSError."""
        end = self._file.seek(0, os.SEEK_END)
        data = line + b"\n"
        if self._file.write(data) != len(data):
            self._file.truncate(end)
            raise OSError("the line was not written whole")
        os.fsync(self._file.fileno())

    def lines(self) -> list[bytes]:
        """All complete lines. A kill in the middle of an append leaves a partial last line, which is removed."""
        self._file.seek(0)
        data = self._file.read()
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            self._file.truncate(len(complete))
        return complete.splitlines()

    def clear(self) -> None:
        self._file.truncate(0)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
