"""The tables of an SQLite file that anybody may have written, read within bounds.

The file is opened for reading alone, and nothing that it contains is evaluated: no view, no generated column, no
virtual table, no index. A damaged file may lead to the same pages again and again, so that the work and the text
that is read are bounded by the size of the file.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tare.errors import BadInput, brief

MAGIC = b"SQLite format 3\0"
LARGEST_TEXT = 8 << 20
# SQLite's virtual machine executes an instruction for a column, which takes a byte of a file or more, and a few
# for a row.
FEW_STEPS, STEPS_PER_BYTE = 300_000, 2
# How many instructions are counted at a time.
STEPS_AT_A_TIME = 50_000
# What a file may cause: columns of its tables are read, and tables described.
_READ = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
_DESCRIBE = "table_xinfo"
Row = dict[str, Any]


class SqliteTables:
    """The ordinary tables of a file. BadInput where it is no database, is damaged, or exceeds a bound."""

    def __init__(self, path: Path) -> None:
        self._path = path
        size = path.stat().st_size
        self._steps_left = FEW_STEPS + STEPS_PER_BYTE * size
        self._text_left = size
        # `immutable`: the file has no journal, and none is looked for.
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        except sqlite3.Error as error:
            raise BadInput(f"cannot read {path}: {brief(error)}") from None
        for category, most in _LIMITS.items():
            self._connection.setlimit(category, most)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON"):
            list(self._query(f"PRAGMA {setting}"))
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(self._spend, STEPS_AT_A_TIME)
        # Virtual tables have no page of their own.
        schema = self._query("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        self.names = {name for (name,) in schema if isinstance(name, str)}

    def columns(self, table: str) -> set[str]:
        """The stored columns of a table; none where the file has no such table."""
        if table not in self.names:
            return set()
        described = self._query(f"PRAGMA {_DESCRIBE}({_quote(table)})")
        # Columns that are computed when they are read are marked as hidden.
        return {str(name) for _, name, *_, hidden in described if hidden == 0}

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """The rows of a table in the order of the file. A column or a table that the file has not is None, or
        empty."""
        present = self.columns(table)
        found = [column for column in columns if column in present]
        if not found:
            return
        absent = dict.fromkeys(columns)
        for values in self._query(f"SELECT {', '.join(map(_quote, found))} FROM {_quote(table)} NOT INDEXED"):
            self._text_left -= sum(len(value) for value in values if isinstance(value, str | bytes))
            if self._text_left < 0:
                raise BadInput(f"{self._path} has more text than its size, and is not read")
            yield absent | dict(zip(found, values, strict=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._connection.close()

    def _query(self, statement: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(statement)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            endless = "its pages lead to more rows than a file of its size can hold"
            raise BadInput(
                f"{self._path} is damaged: {endless if self._steps_left < 0 else brief(error)}"
            ) from None

    def _spend(self) -> int:
        """Interrupts the query where it takes longer than a file of this size can need."""
        self._steps_left -= STEPS_AT_A_TIME
        return int(self._steps_left < 0)


_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_TEXT,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def _authorize(action: int, name: str | None, _column: str | None, _schema: str | None, view: str | None) -> int:
    described = action == sqlite3.SQLITE_PRAGMA and name == _DESCRIBE
    return sqlite3.SQLITE_OK if described or (action in _READ and view is None) else sqlite3.SQLITE_DENY


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
