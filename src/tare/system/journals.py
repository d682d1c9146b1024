"""Append-only files of JSON lines that survive a kill or a full disk: a line is there whole or not at all."""

import os
from io import FileIO
from pathlib import Path

from tare.errors import BadInput
from tare.system.private_files import open_private

LARGEST_JOURNAL = 1 << 30


class AppendOnlyFile(FileIO):
    """Opened for appending, made for its owner alone if it is not there. OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a+", opener=open_private)

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
        if os.fstat(self.fileno()).st_size > LARGEST_JOURNAL:
            raise BadInput(f"the journal {self.name} is too large: more than {LARGEST_JOURNAL >> 20} MB")
        data = self.readall()
        complete = data[: data.rfind(b"\n") + 1]
        if len(complete) < len(data):
            self.truncate(len(complete))
        return complete.splitlines()
