"""The store: records in SQLite by default, in anything SQLAlchemy speaks if asked."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, Select, create_engine, event, select
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from tare.errors import BadInput, TareError
from tare.records.codec import decode_record
from tare.records.record import Record
from tare.store import schema
from tare.store.address import reason, shown
from tare.store.query import Query
from tare.store.read_only import open_fixed, read_only
from tare.system.home import home

BUSY_MS = 60_000


class StoreFailed(TareError):
    """The store cannot be written now; the message says why in the database's words."""


class Store:
    """`where` is a file or a database URL; the default is records.db in the data folder."""

    def __init__(self, where: str | None = None, existing: bool = False, reading: bool = False) -> None:
        """`existing` makes a mistyped name an error and not a new and empty store. So does `reading`, for which a
        read-only file will do."""
        if where is not None and not where.strip():
            raise BadInput("--store names nothing; leave it out for the default")
        given = where or str(home() / "records.db")
        self.where = shown(given)
        fixed = "://" not in given and read_only(given)
        if fixed and not reading:
            raise BadInput(f"the store {given} is read-only; name another with --store")
        if where and (existing or reading) and "://" not in given and not _exists(given):
            raise BadInput(f"there is no store {self.where}")
        self._engine = open_fixed(given) if fixed else _connect(given)
        try:
            if fixed:
                with self._engine.connect() as connection:
                    schema.require_newest(connection, self.where)
            else:
                with self.transaction() as connection:
                    schema.migrate(connection, self.where)
        except TareError:
            # Nobody gets this store to close it, and an open connection may keep others out.
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One atomic write; a failing disk or a locked database becomes a StoreFailed."""
        try:
            with self._engine.execution_options(writes=True).begin() as connection:
                yield connection
        except DatabaseError as error:
            raise StoreFailed(f"cannot write the store {self.where}: {error.orig}") from error

    def find(self, query: Query) -> list[Record]:
        """Records that match, oldest first."""
        statement = query.apply(select(schema.records.c.id, schema.records.c.document))
        return [decode_record(row.document, f"record {row.id} in {self.where}") for row in self.rows(statement)]

    def rows(self, statement: Select[Any]) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement))
        except DatabaseError as error:
            raise BadInput(f"cannot read the store {self.where}: {error.orig}") from error

    def close(self) -> None:
        self._engine.dispose()


def _connect(where: str) -> Engine:
    try:
        engine = create_engine(where if "://" in where else _file_url(where))
        if engine.dialect.name == "sqlite":
            _tune_sqlite(engine)
        with engine.connect():
            return engine
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError, OSError) as error:
        # Python's own: a port that is no number, a name that is too long.
        raise BadInput(f"cannot use {shown(where)} as a store: {reason(error, where)}") from None
    except DatabaseError as error:
        raise BadInput(f"cannot open the store {shown(where)}: {reason(error.orig, where)}") from None


def _path(where: str) -> Path:
    try:
        return Path(where).expanduser().resolve()
    except RuntimeError as error:
        # The home folder of a user whom nobody knows.
        raise BadInput(f"cannot use {where} as a store: {error}") from None


def _exists(where: str) -> bool:
    try:
        return _path(where).exists()
    except (OSError, ValueError):
        # No name that a file can have: opening it says so.
        return True


def _file_url(where: str) -> URL:
    path = _path(where)
    if path.is_dir():
        raise BadInput(f"the store {where} is a folder; name a file in it, such as {path / 'records.db'}")
    if shown(where) != where:
        raise BadInput(f"cannot use {shown(where)} as a store: a database's address has :// behind its kind")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for the store {where}")
    # Not a text, in which a question mark or a percent sign of the path would have a meaning.
    return URL.create("sqlite", database=str(path))


def _switch_to_wal(cursor: Any) -> None:
    """SQLite does not wait for this statement as it does for others: two new processes would fail each other."""
    end = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _tune_sqlite(engine: Engine) -> None:
    """Several writers at once, nothing lost at a kill, and a write lock from the first statement on (so that two
    new processes do not both create the tables)."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        _switch_to_wal(cursor)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
