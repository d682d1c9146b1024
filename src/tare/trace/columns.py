"""Columns of numbers that grow piece by piece, and numbers for values that come again and again.

A piece is packed by `struct` and put behind the others: numpy's calls, and its way through a list, would cost more
than all else that is done to a piece.
"""

from collections.abc import Callable
from struct import error, pack
from typing import Any

import numpy as np
import numpy.typing as npt

from tare.trace.intervals import Integers

# Between texts of JSON, which never has this byte.
SEPARATOR = b"\0"
# Beyond this a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15

Floats = npt.NDArray[np.float64]


def integers(values: list[Any]) -> bytes:
    try:
        return pack(f"{len(values)}q", *values)
    except error:
        return np.array(values, dtype=np.int64).tobytes()


def floats(values: list[Any]) -> bytes:
    """Numbers as they are, texts as the numbers they spell, and NaN for all else."""
    try:
        return pack(f"{len(values)}d", *values)
    except error:
        return np.array([_number(value) for value in values], dtype=np.float64).tobytes()


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def distinct(values: Integers) -> Integers:
    """Each value once, in order. Numpy's own way hashes integers: sorting them is ten times as fast."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


class Columns:
    """A table of spans that grows by pieces. Their times come in microseconds, and leave in nanoseconds."""

    def __init__(self, *names: str) -> None:
        self._times = bytearray(), bytearray()
        self._columns = {name: bytearray() for name in names}
        # Spans without usable times, which are left out; known at the end.
        self.skipped = 0

    def add(self, starts: list[Any], durations: list[Any], *columns: bytes) -> None:
        for times, values in zip(self._times, (starts, durations), strict=True):
            times += floats(values)
        for column, piece in zip(self._columns.values(), columns, strict=True):
            column += piece

    def finish(self) -> dict[str, Integers]:
        """The columns whole, with `start` and `end` before the others; the table is empty then."""
        start, length = (np.frombuffer(times) for times in self._times)
        good = (np.abs(start) < LATEST) & (length >= 0) & (length < LATEST)
        found = {name: np.frombuffer(column, dtype=np.int64) for name, column in self._columns.items()}
        self._columns, self._times = {}, (bytearray(), bytearray())
        if not good.all():
            self.skipped = int((~good).sum())
            start, length = start[good], length[good]
            found = {name: column[good] for name, column in found.items()}
        begin = _nanoseconds(start)
        return {"start": begin, "end": begin + _nanoseconds(length), **found}


def _nanoseconds(microseconds: Floats) -> Integers:
    """Whole and broken microseconds apart: since 1970 it is so many nanoseconds that a float has steps of 256."""
    whole = np.floor(microseconds)
    return whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)


class Codes(dict[Any, int]):
    """Equal values get one number."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code

    def of(self, values: Any) -> bytes:
        """The values' numbers, as a column."""
        return integers(list(map(self.__getitem__, values)))


class Interned(Codes):
    """Equal groups of texts, joined by SEPARATOR, get equal rows of numbers, worked out once, at the end."""

    def __init__(self, width: int, numbers: Callable[[list[bytes]], list[int]]) -> None:
        super().__init__()
        self._width, self._numbers = width, numbers

    def columns(self, codes: Integers) -> Integers:
        """The numbers of these groups, one array a column."""
        rows = [self._numbers(group.split(SEPARATOR)) for group in self]
        return np.array(rows, dtype=np.int64).reshape(-1, self._width).T.take(codes, axis=1)
