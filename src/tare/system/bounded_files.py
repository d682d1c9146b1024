"""Files that somebody else may have written, read within bounds: a few megabytes of gzip can expand to a terabyte.

Our own traces and records expand 6 to 31 times.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self, cast

from tare.errors import BadInput

GZIP = b"\x1f\x8b"
# What unpacking raises for damaged data, besides OSError.
UNPACKING_ERRORS = (EOFError, zlib.error)
# A compressed file may expand to this many bytes, or to this many times its size if that is more.
SMALL_TEXT = 32 << 20
MOST_EXPANSION = 50
# The largest file that is read as a whole.
LARGEST_DOCUMENT = 2 << 30
# The longest line of a file that is read line by line, and the largest such file.
LONGEST_LINE, LARGEST_STREAM = 1 << 28, 1 << 42
# A JSON document may have this many values, or one for each byte of its file if that is more: a value takes about
# 100 bytes of memory, and ours take 3 bytes or more of a compressed file.
FEW_VALUES = 2_000_000
PIECE = 1 << 20


class BoundedFile:
    """A file opened for reading, unpacked if its content (not its name) is gzip. BadInput where it exceeds a
    bound; other errors are those of `open` and `gzip`."""

    def __init__(self, path: Path, largest: int) -> None:
        self._path, self._largest = path, largest
        self._file = path.open("rb")
        self._unpacked: IO[bytes] | None = None
        if self._file.peek(2)[:2] == GZIP:
            self._unpacked = cast(IO[bytes], gzip.GzipFile(fileobj=self._file))
        self._bytes_read = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        data = (self._unpacked or self._file).read(size)
        self._bytes_read += len(data)
        if self._bytes_read > self._largest:
            raise BadInput(f"{self._path} is too large: more than {self._largest >> 20} MB")
        expanded = self._unpacked is not None and self._bytes_read > MOST_EXPANSION * self.bytes_on_disk
        if expanded and self._bytes_read > SMALL_TEXT:
            raise BadInput(f"{self._path} expands to more than {MOST_EXPANSION} times its size, and is not read")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def bytes_on_disk(self) -> int:
        """How much of the file has been read, as it is stored; 0 for a pipe."""
        return self._file.tell() if self._file.seekable() else 0


def read_bounded(path: Path, largest: int = LARGEST_DOCUMENT) -> bytes:
    """The whole content of a file; BadInput says in one line why it cannot be read."""
    return b"".join(_pieces(path, largest))


def read_json(path: Path) -> bytes:
    """The text of a JSON document that decodes to a bounded number of values."""
    return b"".join(_pieces(path, LARGEST_DOCUMENT, count_values=True))


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that may be larger than memory, without their ends and without empty ones."""
    rest = b""
    for piece in _pieces(path, LARGEST_STREAM):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise BadInput(f"{path} has a line of more than {LONGEST_LINE >> 20} MB")
        yield from filter(None, lines)
    if rest:
        yield rest


def _pieces(path: Path, largest: int, count_values: bool = False) -> Iterator[bytes]:
    values = 0
    try:
        with BoundedFile(path, largest) as file:
            while piece := file.read(PIECE):
                # There is one of these before every value but the first.
                values += sum(map(piece.count, (b",", b"[", b"{"))) if count_values else 0
                if len(piece) == PIECE and not piece.strip(b"\0"):
                    # A sparse file takes no space on a disk, and all of its size in memory.
                    raise BadInput(f"{path} holds no text")
                if values > max(FEW_VALUES, file.bytes_on_disk):
                    raise BadInput(f"{path} has too many values for its size (over {values:,}), and is not read")
                yield piece
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
    except UNPACKING_ERRORS as error:
        raise BadInput(f"{path} cannot be unpacked, it is damaged or cut off: {error}") from None
