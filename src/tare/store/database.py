"""The store: records in a SQLite file by default, or in another database that SQLAlchemy supports."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from tare.errors import BadInput, TareError
from tare.records.codec import decode_record
from tare.records.record import Record
from tare.store import schema
from tare.system.home import home, home_folder
from tare.system.locks import ExclusiveFile, LockedByOther

# How long SQLite waits for another process's lock.
BUSY_S = 60.0
# Passwords in a URL. The first pattern extends to the last @, because a password may contain one.
PASSWORDS = (
    re.compile(r"^[A-Za-z][\w+.-]*:/+[^:/@]*:(.*)(?=@)", re.DOTALL),
    re.compile(r"[?&][^=&]*(?:passw|pwd|secret|token|key)[^=&]*=([^&]*)", re.IGNORECASE),
)


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
        self.where = hide_passwords(address, address)
        path = None if "://" in address else _file_path(address, self.where)
        read_only = path is not None and _is_read_only(path)
        if read_only and not reading:
            raise BadInput(f"the store {address} is read-only; name another with --store")
        if where and (existing or reading) and path is not None and not path.exists():
            raise BadInput(f"there is no store {self.where}")
        # The folder of a store that is a file.
        self.folder = path.parent if path else None
        self._locks: dict[Path, ExclusiveFile] = {}
        try:
            self._engine = _make_engine(path or address, read_only)
            created = self._is_created()
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
            # ValueError is Python's: a port that is not a number.
            raise BadInput(f"cannot use {self.where} as a store: {hide_passwords(str(error), address)}") from None
        except DatabaseError as error:
            message = hide_passwords(str(error.orig), address)
            raise BadInput(f"cannot open the store {self.where}: {message}") from None
        if not created:
            if read_only:
                raise BadInput(f"the store {self.where} is empty and read-only")
            with self.transaction() as connection:
                schema.create(connection)

    def _is_created(self) -> bool:
        """False for an empty database; BadInput for another program's, or another schema version."""
        with self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(schema.version.name):
                return False
            version = connection.scalar(sa.select(schema.version.c.version))
        if version != schema.VERSION:
            raise BadInput(
                f"the store {self.where} has schema version {version}; this tare reads version {schema.VERSION}"
            )
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for lock in self._locks.values():
            lock.close()
        self._locks = {}
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """One atomic write. A full disk or a locked database raises StoreFailed."""
        try:
            with self._engine.execution_options(writes=True).begin() as connection:
                yield connection
        except DatabaseError as error:
            raise StoreFailed(f"cannot write the store {self.where}: {error.orig}") from error

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement))
        except DatabaseError as error:
            raise BadInput(f"cannot read the store {self.where}: {error.orig}") from error

    def find(self, *conditions: sa.ColumnElement[bool]) -> list[Record]:
        """The records for which all conditions on schema.records hold, oldest first."""
        columns = schema.records.c
        statement = sa.select(columns.id, columns.document).where(*conditions)
        rows = self.rows(statement.order_by(columns.created, columns.id))
        return [decode_record(row.document, f"record {row.id} in {self.where}") for row in rows]

    def add(self, records: Iterable[Record]) -> tuple[int, list[Record]]:
        """Stores records of any runs as they are. Returns how many were new, and those that were refused because
        their run already has another record of their case."""
        columns = schema.records.c
        new, refused = 0, []
        with self.transaction() as connection:
            for record in records:
                is_case = sa.and_(columns.run == record.run, columns.key == record.case.key)
                ids = set(
                    connection.scalars(sa.select(columns.id).where(sa.or_(columns.id == record.id, is_case)))
                )
                if record.id in ids:
                    continue
                if ids:
                    refused.append(record)
                    continue
                connection.execute(sa.insert(schema.records).values(schema.record_row(record)))
                new += 1
        return new, refused

    def lock_run(self, run: str) -> None:
        """Holds the run until this store is closed or the process ends, however it ends: two processes that resume
        a run would measure the same rounds twice. Raises BadInput if another process holds it.

        The lock file lies beside a store that is a file, and in TARE_HOME for any other store.
        """
        path = (self.folder or home_folder("runs")) / f"tare-{run}.lock"
        if path in self._locks:
            return
        try:
            self._locks[path] = ExclusiveFile(path)
        except LockedByOther as owner:
            raise BadInput(f"{owner} is measuring run {run}: wait for it or end it, then use --resume") from None
        except OSError as error:
            raise BadInput(f"cannot lock run {run} with {path} ({error.strerror})") from None


def hide_passwords(text: str, address: str) -> str:
    """The text, which may repeat parts of the address, with stars for the address's passwords. The address need
    not be a valid URL."""
    passwords = [match[1] for pattern in PASSWORDS for match in pattern.finditer(address)]
    passwords += [unquote(password) for password in passwords]
    parts = {part for password in passwords for part in (password, *re.split(r"[@:/]", password)) if part}
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def _file_path(address: str, where: str) -> Path:
    """The path of a SQLite file; BadInput if no file can have that name."""
    try:
        path = Path(address).expanduser().resolve()
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        # A name that is too long or has a null character, or a user whom expanduser() does not know.
        raise BadInput(f"cannot use {where} as a store: {error}") from None
    if is_folder:
        raise BadInput(f"the store {address} is a folder; name a file in it, such as {path / 'records.db'}")
    if where != address:
        raise BadInput(f"cannot use {where} as a store: a database URL begins with KIND://")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for the store {address}")
    return path


def _is_read_only(path: Path) -> bool:
    """Whether it is an existing file that this process cannot write, or in a folder that it cannot write."""
    return path.is_file() and not all(
        os.access(each, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        for each in (path, path.parent)
    )


def _make_engine(address: Path | str, read_only: bool) -> sa.Engine:
    """An engine for a SQLite file, which is created if it does not exist, or for a database URL.

    SQLite keeps its default rollback journal: several processes may write, a kill loses nothing, and a read-only
    file can be read without the files that a write-ahead log needs beside it.
    """
    if isinstance(address, str):
        engine = sa.create_engine(address)
    else:
        # As a URI, in which a question mark or a percent sign of the path is escaped.
        query = {"uri": "true", "mode": "ro" if read_only else "rwc"}
        engine = sa.create_engine(sa.URL.create("sqlite", database=address.as_uri(), query=query))
    if engine.dialect.name != "sqlite":
        return engine

    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: Any) -> None:
        # Transactions are begun below, not by the driver.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_S * 1000:.0f}")

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        # A write transaction holds the lock from its start, so that two processes that open a new store do not
        # both create its tables.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
