"""The store: records in a SQLite file by default, or in another database that SQLAlchemy supports."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, Row, Select, select
from sqlalchemy.exc import DatabaseError

from tare.errors import BadInput, TareError
from tare.records.codec import decode_record
from tare.records.record import Record
from tare.store import schema
from tare.store.connect import connect, connect_read_only, file_path, hide_passwords, is_read_only
from tare.system.home import home

# Databases limit the number of values in one statement.
VALUES_PER_STATEMENT = 500


class StoreFailed(TareError):
    """The store cannot be written now; the message has the database's reason."""


class Store:
    """`where` is a file or a database URL, as messages may show it; the default is records.db in TARE_HOME."""

    def __init__(self, where: str | None = None, existing: bool = False, reading: bool = False) -> None:
        """With `existing` or `reading`, a store that does not exist is an error instead of being created. With
        `reading`, the store may be a read-only file."""
        if where is not None and not where.strip():
            raise BadInput("--store names nothing; leave it out for the default")
        address = where or str(home() / "records.db")
        self.where = hide_passwords(address)
        path = file_path(address)
        read_only = path is not None and is_read_only(path)
        if read_only and not reading:
            raise BadInput(f"the store {address} is read-only; name another with --store")
        if where and (existing or reading) and path is not None and not path.exists():
            raise BadInput(f"there is no store {self.where}")
        self._engine = connect_read_only(path) if path and read_only else connect(path or address)
        try:
            with self._engine.connect() if read_only else self.transaction() as connection:
                if not schema.is_created(connection, self.where):
                    if read_only:
                        raise BadInput(f"the store {self.where} is empty and read-only")
                    schema.create(connection)
        except TareError:
            # The caller never gets this store, and an open connection could block others.
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One atomic write. A full disk or a locked database raises StoreFailed."""
        try:
            with self._engine.execution_options(writes=True).begin() as connection:
                yield connection
        except DatabaseError as error:
            raise StoreFailed(f"cannot write the store {self.where}: {error.orig}") from error

    def find(self, *conditions: ColumnElement[bool]) -> list[Record]:
        """The records for which all conditions on schema.records hold, oldest first."""
        columns = schema.records.c
        statement = select(columns.id, columns.document).where(*conditions).order_by(columns.created, columns.id)
        return [decode_record(row.document, f"record {row.id} in {self.where}") for row in self.rows(statement)]

    def rows(self, statement: Select[Any]) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement))
        except DatabaseError as error:
            raise BadInput(f"cannot read the store {self.where}: {error.orig}") from error

    def close(self) -> None:
        self._engine.dispose()


def rows_among(
    connection: Connection, statement: Select[Any], column: ColumnElement[str], values: Sequence[str]
) -> list[Row[Any]]:
    """The rows in which the column has one of the values, in as many statements as necessary."""
    parts = (values[i : i + VALUES_PER_STATEMENT] for i in range(0, len(values), VALUES_PER_STATEMENT))
    return [row for part in parts for row in connection.execute(statement.where(column.in_(part)))]
