"""Opening the database of a store: a SQLite file, a SQLite file that cannot be written, or a database URL."""

import os
import re
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from tare.errors import BadInput

# How long SQLite waits for another process's lock.
BUSY_MS = 60_000
# SQLite's errors where it cannot create the -wal and -shm files beside a database.
CANNOT_CREATE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)

# Passwords in a URL. The first pattern extends to the last @, because a password may contain one.
PASSWORD_OF_USER = re.compile(r"^([A-Za-z][\w+.-]*:/+[^:/@]*:)(.*)(?=@)", re.DOTALL)
PASSWORD_IN_QUERY = re.compile(r"([?&][^=&]*(?:passw|pwd|secret|token|key)[^=&]*=)([^&]*)", re.IGNORECASE)


def hide_passwords(address: str) -> str:
    """The address as a message may show it, even if it is not a valid URL."""
    return PASSWORD_IN_QUERY.sub(r"\1***", PASSWORD_OF_USER.sub(r"\1***", address))


def safe_message(error: object, address: str) -> str:
    """A library's error message, unless it repeats a part of a password."""
    text = str(error)
    passwords = [
        match[2] for pattern in (PASSWORD_OF_USER, PASSWORD_IN_QUERY) for match in pattern.finditer(address)
    ]
    passwords += [unquote(password) for password in passwords]
    parts = [part for password in passwords for part in (password, *re.split(r"[@:/]", password)) if part]
    return f"{type(error).__name__}, which repeats the password" if any(part in text for part in parts) else text


def file_path(address: str) -> Path | None:
    """The path of a SQLite file, None for a database URL; BadInput if no file can have that name."""
    if "://" in address:
        return None
    try:
        path = Path(address).expanduser().resolve()
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        # A name that is too long or has a null character, or a user whom expanduser() does not know.
        raise _unusable(address, error) from None
    if is_folder:
        raise BadInput(f"the store {address} is a folder; name a file in it, such as {path / 'records.db'}")
    if hide_passwords(address) != address:
        raise BadInput(f"cannot use {hide_passwords(address)} as a store: a database URL begins with KIND://")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for the store {address}")
    return path


def is_read_only(path: Path) -> bool:
    """Whether it is an existing file that this process cannot write, or in a folder that it cannot write."""
    return path.is_file() and not all(
        os.access(each, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        for each in (path, path.parent)
    )


def connect(address: str | Path) -> Engine:
    """An engine for a store that can be written; a SQLite file is created if it does not exist."""
    try:
        # Not a text, in which a question mark or a percent sign in a path would have a meaning.
        url = URL.create("sqlite", database=str(address)) if isinstance(address, Path) else address
        engine = create_engine(url)
        if engine.dialect.name == "sqlite":
            _configure_sqlite(engine)
        with engine.connect():
            return engine
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
        # ValueError is Python's: a port that is not a number.
        raise _unusable(str(address), error) from None
    except DatabaseError as error:
        message = safe_message(error.orig, str(address))
        raise BadInput(f"cannot open the store {hide_passwords(str(address))}: {message}") from None


def connect_read_only(path: Path) -> Engine:
    """An engine for a SQLite file that cannot be written: another user's file, or one on a read-only disk."""
    # While another process writes the store, the -wal and -shm files exist and mode=ro works. Without them nobody
    # writes, the file is complete, and only then is immutable=1 (no locks, no -wal) safe.
    try:
        return _open_uri(path, "mode=ro")
    except DatabaseError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        log = path.with_name(f"{path.name}-wal")
        if code not in CANNOT_CREATE:
            raise BadInput(f"cannot open the store {path}: {error.orig}") from None
        if log.exists() and log.stat().st_size:
            raise BadInput(
                f"the store {path} is read-only and its last writes are in {log.name}: "
                "copy both to where they can be written"
            ) from None
    try:
        return _open_uri(path, "immutable=1")
    except DatabaseError as error:
        raise BadInput(f"cannot open the store {path}: {error.orig}") from None


def _unusable(address: str, error: Exception) -> BadInput:
    return BadInput(f"cannot use {hide_passwords(address)} as a store: {safe_message(error, address)}")


def _open_uri(path: Path, parameters: str) -> Engine:
    uri = f"{path.as_uri()}?{parameters}"
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(uri, uri=True, check_same_thread=False),
    )
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    return engine


def _configure_sqlite(engine: Engine) -> None:
    """Several processes may write, a kill loses nothing, and a write transaction holds the lock from its start, so
    that two processes that open a new store do not both create its tables."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        _switch_to_wal(cursor)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """busy_timeout does not apply to this statement, so that two first uses of a store would fail each other."""
    end = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)
