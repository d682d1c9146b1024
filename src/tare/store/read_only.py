"""Reading a store of SQLite that cannot be written: another user's file, a read-only disk."""

import os
import sqlite3
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import DatabaseError

from tare.errors import BadInput

# What SQLite says that finds no room for the two small files beside a database.
NO_ROOM = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def read_only(where: str) -> bool:
    """Whether there is such a file and this process may not write it or beside it."""
    try:
        path = Path(where).expanduser().resolve()
        return path.is_file() and not all(_writable(one) for one in (path, path.parent))
    except (OSError, ValueError, RuntimeError):
        # No name that a file can have: opening it says so.
        return False


def open_fixed(where: str) -> Engine:
    path = Path(where).expanduser().resolve()
    # While somebody else writes it, their files lie beside it and are all that is needed. If there are none nobody
    # does, and the file as it is holds everything: only then may SQLite be told to look for no others.
    try:
        return _open(path, "mode=ro")
    except DatabaseError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        log = path.with_name(f"{path.name}-wal")
        if code not in NO_ROOM:
            raise BadInput(f"cannot open the store {where}: {error.orig}") from None
        if log.exists() and log.stat().st_size:
            raise BadInput(
                f"the store {where} is read-only and its last writes are in {log.name}: "
                "copy both to where they can be written"
            ) from None
    try:
        return _open(path, "immutable=1")
    except DatabaseError as error:
        raise BadInput(f"cannot open the store {where}: {error.orig}") from None


def _open(path: Path, how: str) -> Engine:
    uri = f"{path.as_uri()}?{how}"
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(uri, uri=True, check_same_thread=False),
    )
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    return engine


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
