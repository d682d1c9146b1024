"""Columns of numbers that grow piece by piece, and numbers for values that come again and again."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from tare.trace.intervals import Integers

# Between texts of JSON, which never has this byte.
SEPARATOR = b"\0"


class Columns:
    """A table that grows by pieces."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._pieces: list[list[Integers]] = []

    def add(self, count: int, *columns: list[int] | Integers | int) -> None:
        """A piece of so many rows; a number alone stands for a column of it."""
        self._pieces.append(
            [
                np.full(count, column) if isinstance(column, int) else np.asarray(column, dtype=np.int64)
                for column in columns
            ]
        )

    def finish(self) -> dict[str, Integers]:
        """The columns whole; the pieces are given up one by one, so that memory never holds both."""
        found = {}
        for i, name in enumerate(self.names):
            found[name] = np.concatenate([np.empty(0, dtype=np.int64), *(piece[i] for piece in self._pieces)])
            for piece in self._pieces:
                piece[i] = np.empty(0, dtype=np.int64)
        return found


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

    def columns(self, groups: Iterable[tuple[msgspec.Raw, ...]]) -> Integers:
        """The numbers of each group, one array a column."""
        codes, join = self._codes, SEPARATOR.join
        found = [codes[join(group)] for group in groups]
        known = self._columns.shape[1]
        if known < len(codes):
            new = [self._numbers(key.split(SEPARATOR)) for key in islice(codes, known, None)]
            self._columns = np.concatenate([self._columns, np.array(new, dtype=np.int64).T], axis=1)
        return self._columns[:, found]
