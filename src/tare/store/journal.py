"""The journal of a run: each round and record is stored the moment it exists, and loaded again by --resume."""

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from sqlalchemy import delete, insert, select, update

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.records.codec import decode_round, encode
from tare.records.record import Record, Round
from tare.store import schema
from tare.store.database import Store, StoreFailed, rows_among
from tare.store.run_lock import RunLocks
from tare.store.unsaved_rounds import read_unsaved, write_unsaved


class StoreJournal:
    """The Journal of tare.execute.runner on a Store."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self.run = run
        # The start of a run that was already complete when it was resumed, otherwise "".
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
        """Uses records of other runs for their cases in this run. In the store they stay in their own run."""
        self._records |= {record.case.key: record for record in records}

    def point(self, case: Case) -> Round | None:
        """The round that a batch search measured at this case's batch."""
        return self._points.get(case.key)

    def add_point(self, case: Case, round_: Round) -> None:
        """A point that cannot be stored is not written elsewhere: --resume measures this one batch again."""
        self._points[case.key] = round_
        document = encode(round_).decode()
        with self._store.transaction() as connection:
            connection.execute(insert(schema.search_points).values(run=self.run, key=case.key, document=document))

    def add_round(self, case: Case, round_: Round) -> None:
        """Stores the round. If that fails, for example on a full disk, the round is written to another folder."""
        self._rounds.setdefault(case.key, []).append(round_)
        row = {"run": self.run, "key": case.key, "position": round_.index, "document": encode(round_).decode()}
        try:
            with self._store.transaction() as connection:
                connection.execute(insert(schema.rounds).values(**row))
        except StoreFailed as error:
            path = write_unsaved(self._store.where, self.run, case, round_)
            raise StoreFailed(
                f"{error}; the last round is kept in {path}: free some space, then run with --resume"
            ) from error

    def add_record(self, record: Record) -> None:
        """In one transaction, the record replaces the rounds it was made of and the points of its search."""
        self._records[record.case.key] = record
        rounds, points = schema.rounds.c, schema.search_points.c
        with self._store.transaction() as connection:
            connection.execute(insert(schema.records).values(**_row(record)))
            connection.execute(delete(schema.rounds).where(rounds.run == self.run, rounds.key == record.case.key))
            for point in record.search.points if record.search else ():
                key = msgspec.structs.replace(record.case, batch=point.batch).key
                connection.execute(delete(schema.search_points).where(points.run == self.run, points.key == key))

    def finish(self) -> None:
        with self._store.transaction() as connection:
            connection.execute(update(schema.runs).where(schema.runs.c.id == self.run).values(finished=True))

    def load(self) -> None:
        """Reads what earlier processes of this run stored, or could not store and wrote elsewhere."""
        where = self._store.where
        records = self._store.find(schema.records.c.run == self.run)
        self._records |= {record.case.key: record for record in records}
        rounds = select(schema.rounds).where(schema.rounds.c.run == self.run)
        for row in self._store.rows(rounds.order_by(schema.rounds.c.position)):
            round_ = decode_round(row.document, f"round {row.position} of {row.key} in {where}")
            self._rounds.setdefault(row.key, []).append(round_)
        for row in self._store.rows(select(schema.search_points).where(schema.search_points.c.run == self.run)):
            self._points[row.key] = decode_round(row.document, f"point {row.key} in {where}")
        for case, round_ in read_unsaved(where, self.run):
            if self.record(case) is None and round_.index >= len(self.rounds(case)):
                self.add_round(case, round_)


def add_records(store: Store, records: Iterable[Record]) -> tuple[int, list[Record]]:
    """Stores records of any runs as they are. Returns how many were new, and those that were refused because
    their run already has another record of their case."""
    new = {record.id: record for record in records}
    columns = schema.records.c
    refused = []
    with store.transaction() as connection:
        for row in rows_among(connection, select(columns.id), columns.id, list(new)):
            new.pop(row.id)
        runs = list({record.run for record in new.values()})
        rows = rows_among(connection, select(columns.run, columns.key), columns.run, runs)
        stored = {(row.run, row.key) for row in rows}
        for record in new.values():
            if (record.run, record.case.key) in stored:
                refused.append(record)
                continue
            stored.add((record.run, record.case.key))
            connection.execute(insert(schema.records).values(**_row(record)))
    return len(new) - len(refused), refused


def begin(
    store: Store,
    name: str,
    fingerprint: str,
    skipped: list[Skip],
    run_locks: RunLocks | None = None,
    *,
    baseline_side: bool = False,
    confirmation: bool = False,
) -> StoreJournal:
    """A new run. With `run_locks`, no other process can resume it meanwhile."""
    run = uuid.uuid4().hex[:12]
    if run_locks:
        run_locks.acquire(store.where, run)
    with store.transaction() as connection:
        connection.execute(
            insert(schema.runs).values(
                id=run,
                created=datetime.now(UTC).isoformat(timespec="microseconds"),
                name=name,
                fingerprint=fingerprint,
                skipped=msgspec.to_builtins(skipped),
                baseline_side=baseline_side,
                confirmation=confirmation,
            )
        )
    return StoreJournal(store, run)


def resume(store: Store, fingerprint: str, run_locks: RunLocks | None = None) -> StoreJournal | None:
    """The newest run of the same plan and options with what it has measured, or None. With `run_locks`, BadInput
    if another process holds it."""
    runs = schema.runs.c
    statement = select(runs.id, runs.created, runs.finished).where(runs.fingerprint == fingerprint)
    newest = store.rows(statement.order_by(runs.created.desc()).limit(1))
    if not newest:
        return None
    if run_locks:
        run_locks.acquire(store.where, newest[0].id)
    journal = StoreJournal(store, newest[0].id)
    journal.complete_since = newest[0].created if newest[0].finished else ""
    journal.load()
    return journal


def _row(record: Record) -> dict[str, object]:
    return {**schema.index_columns(record), "document": encode(record).decode()}
