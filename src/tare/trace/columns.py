"""Columns of numbers that grow piece by piece, and numbers for values that come again and again."""

from collections.abc import Callable
from itertools import islice
from struct import error, pack
from typing import Any

import numpy as np
import numpy.typing as npt

from tare.trace.intervals import Integers

# Between texts of JSON, which never has this byte.
SEPARATOR = b"\0"


def integers(values: list[Any]) -> Integers:
    """As np.array makes them, which looks twice at each: this is three times as fast."""
    try:
        return np.frombuffer(pack(f"{len(values)}q", *values), dtype=np.int64)
    except error:
        return np.array(values, dtype=np.int64)


def floats(values: list[Any]) -> npt.NDArray[np.float64]:
    try:
        return np.frombuffer(pack(f"{len(values)}d", *values))
    except error:
        return np.array(values, dtype=np.float64)


def distinct(values: Integers) -> Integers:
    """Each value once, in order. Numpy's own way hashes integers: sorting them is ten times as fast."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


class Columns:
    """A table that grows by pieces."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._pieces: list[list[Integers]] = []

    def add(self, count: int, *columns: list[int] | Integers | int) -> None:
        """A piece of so many rows; a number alone stands for a column of it."""
        self._pieces.append([_column(count, column) for column in columns])

    def finish(self) -> dict[str, Integers]:
        """The columns whole; the pieces are given up one by one, so that memory never holds both."""
        found = {}
        for i, name in enumerate(self.names):
            found[name] = np.concatenate([np.empty(0, dtype=np.int64), *(piece[i] for piece in self._pieces)])
            for piece in self._pieces:
                piece[i] = np.empty(0, dtype=np.int64)
        return found


def _column(count: int, column: list[int] | Integers | int) -> Integers:
    if isinstance(column, list):
        return integers(column)
    return np.full(count, column) if isinstance(column, int) else column


class Codes(dict[Any, int]):
    """Equal values get one number."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code


class Interned:
    """Equal groups of texts get equal rows of numbers, which are worked out once."""

    def __init__(self, width: int, numbers: Callable[[list[bytes]], list[int]]) -> None:
        self._numbers = numbers
        self._codes = Codes()
        self._columns = np.empty((width, 0), dtype=np.int64)

    def columns(self, groups: list[bytes]) -> Integers:
        """The numbers of each group, joined by SEPARATOR, one array a column."""
        codes = self._codes
        found = list(map(codes.__getitem__, groups))
        known = self._columns.shape[1]
        if known < len(codes):
            new = [self._numbers(key.split(SEPARATOR)) for key in islice(codes, known, None)]
            self._columns = np.concatenate([self._columns, np.array(new, dtype=np.int64).T], axis=1)
        return self._columns.take(integers(found), axis=1)
