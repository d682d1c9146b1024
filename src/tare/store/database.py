"""The store: records in a SQLite file by default, or in another database that SQLAlchemy supports."""

import functools
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from tare.errors import BadInput, TareError, quote
from tare.records.codec import decode_record
from tare.records.record import Record
from tare.store import schema
from tare.system.home import home, home_folder
from tare.system.locks import ExclusiveFile, LockedByOther
from tare.system.private_files import create_private
from tare.system.redaction import HIDDEN, hide_passwords, redact
from tare.system.variables import STORE

# How long SQLite waits for another process's lock.
BUSY_S = 60.0
# Bytes of a row. A small file could otherwise hold a row that SQLite makes large when it is read.
LARGEST_ROW = 1 << 28
# What begins like a URL or holds the fields of a connection string is hardly the name of a file.
ADDRESS = re.compile(
    r"[A-Za-z][\w+.-]*:|.*:[^/]*@|[^/]*;|(?:.*[\s,'\"])?"
    r"(?:host|hostaddr|port|user|uid|username|dbname|database|server|service|sslmode|pwd|passw\w*)\s*=",
    re.IGNORECASE | re.DOTALL,
)


class StoreFailed(TareError):
    """The store cannot be written now; the message has the database's reason."""


class Store:
    """`where` is a file or a database URL, as messages may show it; the default is what TARE_STORE names, or
    records.db in TARE_HOME."""

    def __init__(self, where: str | None = None, existing: bool = False, reading: bool = False) -> None:
        """With `existing` or `reading`, a store that does not exist is an error instead of being created. With
        `reading`, the store may be a read-only file."""
        named_by = "--store"
        if where is None and (default := os.environ.get(STORE)):
            where, named_by = default, STORE
        if where is not None and not where.strip():
            raise BadInput(f"{named_by} names nothing; leave it out for the default")
        address = where or str(home() / "records.db")
        self._hide = functools.partial(hide_passwords, address=address)
        self.where = self._hide(address)
        path = None if "://" in address else _file_path(address, self.where)
        read_only = path is not None and _is_read_only(path)
        if read_only and not reading:
            raise BadInput(f"the store {self.where} is read-only; name another with --store")
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
            raise BadInput(f"cannot use {self.where} as a store: {self._hide(str(error))}") from None
        except DBAPIError as error:
            raise BadInput(f"cannot open the store {self.where}: {self._hide(str(error.orig))}") from None
        if not created:
            if read_only:
                raise BadInput(f"the store {self.where} is empty and read-only")
            with self.transaction() as connection:
                schema.create(connection)

    def _is_created(self) -> bool:
        """False for an empty database; BadInput for another program's, or another schema version."""
        with self._engine.connect() as connection:
            if made := self._engine.dialect.name == "sqlite" and _made_by_another(connection):
                raise BadInput(f"the store {self.where} was not made by tare: it has {made}")
            if not sa.inspect(connection).has_table(schema.version.name):
                return False
            version = connection.scalar(sa.select(schema.version.c.version))
        if version != schema.VERSION:
            raise BadInput(
                f"the store {self.where} has schema version {version}; this tare reads version {schema.VERSION}:"
                f" name another store with --store or {STORE}, or move this one away"
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
        except DBAPIError as error:
            raise StoreFailed(f"cannot write the store {self.where}: {self._hide(str(error.orig))}") from error

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement))
        except DBAPIError as error:
            raise BadInput(f"cannot read the store {self.where}: {self._hide(str(error.orig))}") from error

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


def _file_path(address: str, where: str) -> Path:
    """The path of a SQLite file; BadInput if no file can have that name, or if it is rather the mistyped address
    of a database, which may hold a password: a file of that name would keep it."""
    is_path = address.startswith(("/", "./", "../", "~"))
    if not is_path and (ADDRESS.match(address) or where != address):
        kind = re.split(r"[:=@;\s]", address, maxsplit=1)[0]
        raise BadInput(
            f"cannot use '{hide_passwords(kind, address)[:40]}{HIDDEN}' as a store: a database URL begins with"
            " KIND://, as in postgresql+psycopg://USER@HOST/NAME, and a file of such a name is written ./NAME"
        )
    try:
        path = Path(address).expanduser().resolve()
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        # A name that is too long or has a null character, or a user whom expanduser() does not know.
        raise BadInput(f"cannot use {where} as a store: {error}") from None
    if is_folder:
        raise BadInput(f"the store {where} is a folder; name a file in it, such as {path / 'records.db'}")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {redact(str(path.parent))} for the store {where}")
    return path


def _is_read_only(path: Path) -> bool:
    """Whether it is an existing file that this process cannot write, or in a folder that it cannot write."""
    return path.is_file() and not all(
        os.access(each, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        for each in (path, path.parent)
    )


def _made_by_another(connection: sa.Connection) -> str:
    """What a SQLite file has in place of a table of tare: a view or a computed column can yield rows without end,
    and a trigger can change what is written. Other tables and views are the user's own."""
    for row in connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        if str(row.tbl_name).lower() not in schema.metadata.tables:
            continue
        if row.type not in ("table", "index"):
            return f"the {row.type} {quote(row.name)}"
        if row.type == "table" and re.match(r"\s*CREATE\s+VIRTUAL", str(row.sql), re.IGNORECASE):
            return f"the virtual table {quote(row.name)}"
    for table in schema.metadata.tables:
        columns = connection.exec_driver_sql("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,))
        if computed := [column.name for column in columns if column.hidden]:
            return f"the computed column {quote(computed[0])}"
    return ""


def _make_engine(address: Path | str, read_only: bool) -> sa.Engine:
    """An engine for a SQLite file, which is created if it does not exist, or for a database URL.

    SQLite keeps its default rollback journal: several processes may write, a kill loses nothing, and a read-only
    file can be read without the files that a write-ahead log needs beside it. The journal has the mode of the
    database, which is created here, because SQLite would let everyone read it.
    """
    if isinstance(address, str):
        engine = sa.create_engine(address)
    else:
        # As a URI, in which a question mark or a percent sign of the path is escaped.
        query = {"uri": "true", "mode": "ro" if read_only else "rwc"}
        engine = sa.create_engine(sa.URL.create("sqlite", database=address.as_uri(), query=query))
    if engine.dialect.name != "sqlite":
        return engine
    file = unquote((engine.url.database or "").removeprefix("file:").partition("?")[0])
    if not read_only and file and not file.startswith(":"):
        create_private(Path(re.sub("^//+", "/", file)))

    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: Any) -> None:
        # Transactions are begun below, not by the driver.
        connection.isolation_level = None
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ROW)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute(f"PRAGMA busy_timeout={BUSY_S * 1000:.0f}")

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        # A write transaction holds the lock from its start, so that two processes that open a new store do not
        # both create its tables.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
