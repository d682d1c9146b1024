"""Append-only files of JSON lines that survive a kill or a full disk: a line is there whole or not at all."""

import os
from io import FileIO
from pathlib import Path


class AppendOnlyFile(FileIO):
    """Opened for appending, made if it is not there. OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a+")

    def append(self, line: bytes) -> None:
        """Writes one line and waits until it is on disk. A partial line would corrupt the next one, so it is
        removed again: OSError."""
        end = self.seek(0, os.SEEK_END)
        data = line + b"\n"
        if self.write(data) != len(data):
            self.truncate(end)
            raise OSError("the line was not written whole")
        os.fsync(self.fileno())

    def lines(self) -> list[bytes]:
        """All complete lines. A kill in the middle of an append leaves a partial last line, which is removed."""
        self.seek(0)
        data = self.readall()
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            self.truncate(len(complete))
        return complete.splitlines()
