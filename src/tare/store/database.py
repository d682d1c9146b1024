"""The store: records in a SQLite file by default, or in a PostgreSQL database."""

import functools
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError

from tare.errors import BadInput, TareError
from tare.records.codec import decode_record
from tare.records.record import Record
from tare.store import schema
from tare.store.engine import file_path, is_read_only, made_by_another, make_engine
from tare.store.insert import insert_missing, insert_record
from tare.system.home import home, home_folder
from tare.system.locks import ExclusiveFile, LockedByOther
from tare.system.redaction import hide_passwords
from tare.system.variables import STORE

# Rows that are read or named at a time.
PORTION = 500
# SQLSTATE classes of PostgreSQL: the connection failed, or the server is being stopped or started.
AWAY = ("08", "57P")


T = TypeVar("T")


def portions(values: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(values)
    while portion := list(itertools.islice(remaining, PORTION)):
        yield portion


class StoreFailed(TareError):
    """The store cannot be written now; the message has the database's reason. `is_away`: its server does not
    answer, and may do so later."""

    def __init__(self, message: str, is_away: bool = False) -> None:
        super().__init__(message)
        self.is_away = is_away


class Store:
    """`where` is a file or a database URL, as messages may show it; the default is what TARE_STORE names, or
    records.db in TARE_HOME."""

    def __init__(
        self, where: str | None = None, existing: bool = False, reading: bool = False, upgrading: bool = False
    ) -> None:
        """With `existing` or `reading`, a store that does not exist is an error instead of being created. With
        `reading`, the store may be a read-only file. With `upgrading`, its layout may be older than this tare's:
        the caller upgrades it."""
        named_by = "--store"
        if where is None and (default := os.environ.get(STORE)):
            where, named_by = default, STORE
        if where is not None and not where.strip():
            raise BadInput(f"{named_by} names nothing; leave it out for the default")
        address = where or str(home() / "records.db")
        self._hide = functools.partial(hide_passwords, address=address)
        self.where = self._hide(address)
        path = None if "://" in address else file_path(address, self.where)
        read_only = path is not None and is_read_only(path)
        if read_only and not reading:
            raise BadInput(f"the store {self.where} is read-only; name another with --store")
        if where and (existing or reading) and path is not None and not path.exists():
            raise BadInput(f"there is no store {self.where}")
        # The folder of a store that is a file.
        self.folder = path.parent if path else None
        self._locks: dict[str, ExclusiveFile | sa.Connection] = {}
        try:
            self.engine = make_engine(path or address, self.where, read_only)
            self.revision = self._read_revision()
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
            # ValueError is Python's: a port that is not a number.
            raise BadInput(f"cannot use {self.where} as a store: {self._hide(str(error))}") from None
        except DBAPIError as error:
            raise BadInput(f"cannot open the store {self.where}: {self._reason(error)}") from None
        if not self.revision:
            if read_only:
                raise BadInput(f"the store {self.where} is empty and read-only")
            with self.transaction() as connection:
                self.one_at_a_time(connection, "create")
                schema.create(connection)
            self.revision = schema.REVISION
        elif self.revision != schema.REVISION and not upgrading:
            self._refuse_layout()

    def _read_revision(self) -> str:
        """Empty for an empty database; BadInput for another program's."""
        with self.engine.connect() as connection:
            if made := self.is_file and made_by_another(connection):
                raise BadInput(f"the store {self.where} was not made by tare: it has {made}")
            inspector = sa.inspect(connection)
            if not inspector.has_table(schema.REVISION_TABLE):
                if inspector.has_table("schema_version"):
                    raise BadInput(
                        f"the store {self.where} was made by a tare from before the first release: export its"
                        f" records with that one, and name another store with --store or {STORE}"
                    )
                return ""
            return str(connection.scalar(sa.select(schema.revision.c.version_num)) or "")

    def _refuse_layout(self) -> None:
        known = self.revision < schema.REVISION
        remedy = "tare store upgrade" if known else "install a newer tare"
        raise BadInput(
            f"the store {self.where} has layout {self.revision[:32]}; this tare uses {schema.REVISION}: {remedy},"
            f" or name another store with --store or {STORE}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for lock in self._locks.values():
            with suppress(DBAPIError):
                lock.close()
        self._locks = {}
        self.engine.dispose()

    @property
    def is_file(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def _reason(self, error: DBAPIError) -> str:
        return self._hide(" ".join(str(error.orig).split()))

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """One atomic write. A full disk, a locked database or a server that is away raises StoreFailed."""
        try:
            with self.engine.execution_options(writes=True).begin() as connection:
                yield connection
        except DBAPIError as error:
            message = f"cannot write the store {self.where}: {self._reason(error)}"
            raise StoreFailed(message, is_away=not self.is_file and _is_away(error)) from error

    def one_at_a_time(self, connection: sa.Connection, task: str) -> None:
        """Until the transaction ends. SQLite has one writer anyway."""
        if not self.is_file:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_number(task))))

    def rows(self, statement: sa.Select[Any]) -> list[Any]:
        return list(self.stream(statement))

    def stream(self, statement: sa.Select[Any]) -> Iterator[Any]:
        """The rows as they come, for a result that is larger than memory."""
        try:
            with self.engine.connect() as connection:
                yield from connection.execution_options(yield_per=PORTION).execute(statement)
        except DBAPIError as error:
            raise BadInput(f"cannot read the store {self.where}: {self._reason(error)}") from error

    def find(self, *conditions: sa.ColumnElement[bool]) -> list[Record]:
        """The records for which all conditions on schema.records hold, oldest first."""
        return list(self.records(*conditions))

    def records(self, *conditions: sa.ColumnElement[bool]) -> Iterator[Record]:
        """As `find`, one by one."""
        columns, document = schema.records.c, schema.documents.c
        statement = sa.select(columns.id, document.document).join_from(
            schema.records, schema.documents, columns.id == document.record
        )
        for row in self.stream(statement.where(*conditions).order_by(columns.created, columns.id)):
            yield decode_record(row.document, f"record {row.id} in {self.where}")

    def known_ids(self, ids: Iterable[str]) -> set[str]:
        """Those that are ids of stored records."""
        column, known = schema.records.c.id, set[str]()
        for portion in portions(ids):
            known.update(row.id for row in self.rows(sa.select(column).where(column.in_(portion))))
        return known

    def add(self, records: Iterable[Record], project: str = "") -> tuple[int, list[Record]]:
        """Stores records of any runs as they are. Returns how many were new, and those that were refused because
        their run already has another record of their case."""
        columns, runs = schema.records.c, schema.runs.c
        new, refused, seen = 0, [], set[str]()
        with self.transaction() as connection:
            for record in records:
                if record.run not in seen:
                    seen.add(record.run)
                    insert_missing(connection, schema.runs, _imported_run(record, project))
                is_case = sa.and_(columns.run == record.run, columns.key == record.case.key)
                ids = set(
                    connection.scalars(sa.select(columns.id).where(sa.or_(columns.id == record.id, is_case)))
                )
                if record.id in ids:
                    continue
                if ids:
                    refused.append(record)
                    continue
                is_auxiliary = sa.and_(runs.id == record.run, sa.or_(runs.baseline_side, runs.confirmation))
                auxiliary = connection.scalar(sa.select(runs.id).where(is_auxiliary)) is not None
                insert_record(connection, record, project, auxiliary)
                new += 1
        return new, refused

    def lock_run(self, run: str) -> None:
        """Holds the run until this store is closed or the process ends, however it ends: two processes that resume
        a run would measure the same rounds twice. Raises BadInput if another process holds it.

        The lock file lies beside a store that is a file. PostgreSQL locks between machines, as long as the
        connection lasts.
        """
        if run in self._locks:
            return
        refusal = f"is measuring run {run}: wait for it or end it, then use --resume"
        if not self.is_file:
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_lock_number(run)))):
                connection.close()
                raise BadInput(f"another process {refusal}")
            self._locks[run] = connection
            return
        path = (self.folder or home_folder("runs")) / f"tare-{run}.lock"
        try:
            self._locks[run] = ExclusiveFile(path)
        except LockedByOther as owner:
            raise BadInput(f"{owner} {refusal}") from None
        except OSError as error:
            raise BadInput(f"cannot lock run {run} with {path} ({error.strerror})") from None


def _imported_run(record: Record, project: str) -> dict[str, Any]:
    """A run of which only records are known. No fingerprint is empty, so it is never resumed."""
    return {
        "id": record.run,
        "created": record.created,
        "name": "imported",
        "fingerprint": "",
        "finished": True,
        "skipped": [],
        "project": project,
    }


def _is_away(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
    return str(state).startswith(AWAY)


def _lock_number(name: str) -> int:
    """PostgreSQL's advisory locks are numbers of 64 bits that all programs of a database share."""
    return int.from_bytes(hashlib.sha256(f"tare {name}".encode()).digest()[:8], signed=True)
