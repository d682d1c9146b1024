"""Pieces of the device's gaps: one table, so that choosing rows of it is one step of numpy and not eight."""

import numpy as np

from tare.trace.intervals import Integers
from tare.trace.tables import Mask

COLUMNS = ("gap", "start", "end", "cause", "thread", "host", "frame", "call")


class Pieces:
    """A piece each: its gap, from, to, the cause, the thread, the host's row, the frame's row, and the call that
    ended the gap; -1 where there is none."""

    gap: Integers
    start: Integers
    end: Integers
    cause: Integers
    thread: Integers
    host: Integers
    frame: Integers
    call: Integers

    def __init__(self, table: Integers) -> None:
        self.table = table
        for name, column in zip(COLUMNS, table, strict=True):
            setattr(self, name, column)

    def __len__(self) -> int:
        return len(self.gap)

    @property
    def length(self) -> Integers:
        return self.end - self.start

    def take(self, rows: Integers | Mask, **changed: Integers | int) -> "Pieces":
        """These pieces only, with these columns instead of their own."""
        table = self.table.take(np.flatnonzero(rows) if rows.dtype == bool else rows, axis=1)
        for name, column in changed.items():
            table[COLUMNS.index(name)] = column
        return Pieces(table)


def make(count: int, **columns: Integers | int) -> Pieces:
    """So many pieces; a number alone stands for a column of it, and -1 for one that is not given."""
    table = np.full((len(COLUMNS), count), -1, dtype=np.int64)
    for name, column in columns.items():
        table[COLUMNS.index(name)] = column
    return Pieces(table)


def join(*parts: Pieces) -> Pieces:
    return Pieces(np.concatenate([part.table for part in parts], axis=1))
