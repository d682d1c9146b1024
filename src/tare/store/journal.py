"""The journal of a run: each round and record is stored the moment it exists, and found again by --resume."""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from sqlalchemy import delete, insert, select, update

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.records.codec import decode_record, decode_round, encode
from tare.records.record import Record, Round
from tare.store import schema
from tare.store.database import Store, StoreFailed
from tare.store.query import rows_among
from tare.store.run_lock import Claims
from tare.store.unsaved_rounds import spill, spilled


class StoreJournal:
    """The Journal of tare.execute.runner on a Store."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self.run = run
        # When a run was begun that was complete before it was resumed; nothing else has a date here.
        self.complete_since = ""
        self._rounds: dict[str, list[Round]] = {}
        self._records: dict[str, Record] = {}
        self._points: dict[str, Round] = {}

    def rounds(self, case: Case) -> list[Round]:
        return list(self._rounds.get(case.key, []))

    def record(self, case: Case) -> Record | None:
        return self._records.get(case.key)

    def all_records(self) -> list[Record]:
        return list(self._records.values())

    def take_over(self, records: Iterable[Record]) -> None:
        """Records of other runs stand for their cases in this one. They stay where they are in the store."""
        self._records |= {record.case.key: record for record in records}

    def point(self, case: Case) -> Round | None:
        """What a search for a batch measured at this one."""
        return self._points.get(case.key)

    def add_point(self, case: Case, done: Round) -> None:
        """Where it cannot be stored it is not spilled like a round: --resume measures this one batch again."""
        self._points[case.key] = done
        document = encode(done).decode()
        with self._store.transaction() as connection:
            connection.execute(insert(schema.search_points).values(run=self.run, key=case.key, document=document))

    def add_round(self, case: Case, done: Round) -> None:
        self._rounds.setdefault(case.key, []).append(done)
        with self._spill_on_failure(case, done), self._store.transaction() as connection:
            connection.execute(
                insert(schema.rounds).values(
                    run=self.run, key=case.key, position=done.index, document=encode(done).decode()
                )
            )

    def add_record(self, record: Record) -> None:
        """The record replaces the rounds it was made of, and the points of its search, in one transaction."""
        self._records[record.case.key] = record
        with self._store.transaction() as connection:
            connection.execute(insert(schema.records).values(**_columns(record)))
            connection.execute(
                delete(schema.rounds).where(
                    schema.rounds.c.run == self.run, schema.rounds.c.key == record.case.key
                )
            )
            points = schema.search_points.c
            for point in record.search.points if record.search else ():
                key = msgspec.structs.replace(record.case, batch=point.batch).key
                connection.execute(delete(schema.search_points).where(points.run == self.run, points.key == key))

    def finish(self) -> None:
        with self._store.transaction() as connection:
            connection.execute(update(schema.runs).where(schema.runs.c.id == self.run).values(finished=True))

    def load(self) -> None:
        """What an earlier process of this run had stored or spilled."""
        kept = schema.records.c
        for row in self._store.rows(select(kept.id, kept.key, kept.document).where(kept.run == self.run)):
            self._records[row.key] = decode_record(row.document, f"record {row.id} in {self._store.where}")
        open_rounds = select(schema.rounds).where(schema.rounds.c.run == self.run)
        for row in self._store.rows(open_rounds.order_by(schema.rounds.c.position)):
            where = f"round {row.position} of {row.key} in {self._store.where}"
            self._rounds.setdefault(row.key, []).append(decode_round(row.document, where))
        for row in self._store.rows(select(schema.search_points).where(schema.search_points.c.run == self.run)):
            self._points[row.key] = decode_round(row.document, f"point {row.key} in {self._store.where}")
        self._load_spill()

    @contextlib.contextmanager
    def _spill_on_failure(self, case: Case, done: Round) -> Iterator[None]:
        """A round that cannot be stored (the disk is full) is written beside, and said so: it is not lost."""
        try:
            yield
        except StoreFailed as error:
            kept = spill(self._store.where, self.run, case, done)
            raise StoreFailed(
                f"{error}; the last round is kept in {kept}: mend it, then run with --resume"
            ) from error

    def _load_spill(self) -> None:
        for case, done in spilled(self._store.where, self.run):
            if self.record(case) is None and done.index >= len(self.rounds(case)):
                self.add_round(case, done)


def keep_records(store: Store, kept: Iterable[Record]) -> tuple[int, list[Record]]:
    """Records of any run, as they are: how many were not there yet, and those left out because their run has
    another record of their case."""
    new = {record.id: record for record in kept}
    column = schema.records.c
    clashing = []
    with store.transaction() as connection:
        for row in rows_among(connection, select(column.id), column.id, list(new)):
            new.pop(row.id)
        runs = list({record.run for record in new.values()})
        of_runs = rows_among(connection, select(column.run, column.key), column.run, runs)
        taken = {(row.run, row.key) for row in of_runs}
        for record in new.values():
            if (record.run, record.case.key) in taken:
                clashing.append(record)
                continue
            taken.add((record.run, record.case.key))
            connection.execute(insert(schema.records).values(**_columns(record)))
    return len(new) - len(clashing), clashing


def begin(
    store: Store, name: str, fingerprint: str, skipped: list[Skip], claims: Claims | None = None
) -> StoreJournal:
    """A new run. With `claims` no other process can resume it meanwhile."""
    run = uuid.uuid4().hex[:12]
    if claims:
        claims.take(store.where, run)
    with store.transaction() as connection:
        connection.execute(
            insert(schema.runs).values(
                id=run,
                created=datetime.now(UTC).isoformat(timespec="microseconds"),
                name=name,
                fingerprint=fingerprint,
                finished=False,
                skipped=msgspec.to_builtins(skipped),
            )
        )
    return StoreJournal(store, run)


def resume(store: Store, fingerprint: str, claims: Claims | None = None) -> StoreJournal | None:
    """The newest run of the same plan and options, with what it has measured; None if there is none. With `claims`
    it is refused while another process works on it."""
    runs = schema.runs.c
    statement = select(runs.id, runs.created, runs.finished).where(runs.fingerprint == fingerprint)
    newest = store.rows(statement.order_by(runs.created.desc()).limit(1))
    if not newest:
        return None
    if claims:
        claims.take(store.where, newest[0].id)
    journal = StoreJournal(store, newest[0].id)
    journal.complete_since = newest[0].created if newest[0].finished else ""
    journal.load()
    return journal


def _columns(record: Record) -> dict[str, object]:
    case = msgspec.structs.asdict(record.case)
    return {
        **case,
        "id": record.id,
        "run": record.run,
        "created": record.created,
        "key": record.case.key,
        "status": record.failure.cause if record.failure else "ok",
        "parity": record.parity.status,
        "environment": record.environment.id,
        "document": encode(record).decode(),
    }
