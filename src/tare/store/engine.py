"""From the address of a store, a file or a database URL, to an engine of SQLAlchemy."""

import os
import re
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa

from tare.errors import BadInput, quote
from tare.store import schema
from tare.system.private_files import create_private
from tare.system.redaction import HIDDEN, hide_passwords, redact

# How long SQLite waits for another process's lock.
BUSY_S = 60.0
# How long PostgreSQL may take to accept a connection.
CONNECT_S = 10
# Bytes of a row. A small file could otherwise hold a row that SQLite makes large when it is read.
LARGEST_ROW = 1 << 28
KINDS = ("sqlite", "postgresql")
DRIVERS = {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary"}
# What begins like a URL or holds the fields of a connection string is hardly the name of a file.
ADDRESS = re.compile(
    r"[A-Za-z][\w+.-]*:|.*:[^/]*@|[^/]*;|(?:.*[\s,'\"])?"
    r"(?:host|hostaddr|port|user|uid|username|dbname|database|server|service|sslmode|pwd|passw\w*)\s*=",
    re.IGNORECASE | re.DOTALL,
)


def file_path(address: str, where: str) -> Path:
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


def is_read_only(path: Path) -> bool:
    """Whether it is an existing file that this process cannot write, or in a folder that it cannot write."""
    return path.is_file() and not all(
        os.access(each, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        for each in (path, path.parent)
    )


def made_by_another(connection: sa.Connection) -> str:
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


def make_engine(address: Path | str, where: str, read_only: bool) -> sa.Engine:
    """An engine for a SQLite file, which is created if it does not exist, or for a database URL. `where` is the
    address for messages."""
    if isinstance(address, Path):
        return _sqlite_file(address, read_only)
    # What other programs call postgres:// is PostgreSQL as well.
    url = sa.make_url(re.sub("^postgres://", "postgresql://", address))
    kind, _, driver = url.drivername.partition("+")
    if kind not in KINDS:
        raise BadInput(f"cannot use {where} as a store: {quote(kind)} is not one of {', '.join(KINDS)}")
    if kind == "sqlite":
        return _prepare_sqlite(sa.create_engine(url), read_only)
    url = url if driver else url.set(drivername="postgresql+psycopg")
    try:
        # A connection that the server has closed, for example to restart, is replaced before its next use.
        limit = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_S}
        return sa.create_engine(url, pool_pre_ping=True, connect_args=limit)
    except ModuleNotFoundError as error:
        package = DRIVERS.get(str(error.name), str(error.name))
        raise BadInput(
            f"a store in PostgreSQL needs a driver that is not installed: pip install '{package}'"
        ) from None


def _sqlite_file(path: Path, read_only: bool) -> sa.Engine:
    # As a URI, in which a question mark or a percent sign of the path is escaped.
    query = {"uri": "true", "mode": "ro" if read_only else "rwc"}
    return _prepare_sqlite(
        sa.create_engine(sa.URL.create("sqlite", database=path.as_uri(), query=query)), read_only
    )


def _prepare_sqlite(engine: sa.Engine, read_only: bool) -> sa.Engine:
    """SQLite keeps its default rollback journal: several processes may write, a kill loses nothing, and a
    read-only file can be read without the files that a write-ahead log needs beside it. The journal has the mode
    of the database, which is created here, because SQLite would let everyone read it."""
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
