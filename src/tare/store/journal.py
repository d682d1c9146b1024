"""The journal of a run: each round and record is stored the moment it exists, and loaded again by --resume.

A round that the store cannot save is written to a file in another folder. A full disk then ends the run; a server
that does not answer does not: what it has missed is delivered as soon as it answers again.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from sqlalchemy import delete, insert, select, update

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.errors import BadInput, quote
from tare.records.codec import UNREADABLE, decode_round, encode
from tare.records.record import Record, Round
from tare.store import schema
from tare.store.database import Store, StoreFailed
from tare.store.insert import insert_missing, insert_record
from tare.store.outbox import Outbox
from tare.system.bounded_files import read_bounded
from tare.system.home import home_folder
from tare.system.journals import AppendOnlyFile

# A line of a file of unsaved rounds: the key of a case, and its round.
_unsaved = msgspec.json.Decoder(tuple[str, Round])
# How long a server that does not answer is waited for at the end of a run.
LAST_WAIT_S = 120.0


class StoreJournal:
    """The Journal of tare.execute.runner on a Store."""

    def __init__(self, store: Store, run: str, is_auxiliary: bool = False) -> None:
        self._store, self._is_auxiliary = store, is_auxiliary
        self.run = run
        # Hears of a server that does not answer, and of one that does again.
        self.on_problem: Callable[[str], None] = lambda _: None
        self._outbox = Outbox()
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
        self._write(lambda: self._insert_round(case, round_, schema.SEARCH_POINT))

    def add_round(self, case: Case, round_: Round) -> None:
        """Stores the round, or writes it to another folder."""
        self._rounds.setdefault(case.key, []).append(round_)
        was_away = bool(self._outbox)
        try:
            if self._write(lambda: self._insert_round(case, round_, round_.index)):
                return
        except StoreFailed as error:
            place = self._write_unsaved(case, round_)
            raise StoreFailed(
                f"{error}; the last round is kept in {place}: free some space, then run with --resume"
            ) from error
        place = self._write_unsaved(case, round_)
        if not was_away:
            self.on_problem(f"{self._outbox.reason}; rounds are kept in {place} until it answers")

    def drop_rounds(self, cases: Iterable[Case]) -> None:
        """Forgets the rounds of cases that begin anew: those of one record come from one machine."""
        keys = [case.key for case in cases if self._rounds.pop(case.key, None)]
        if keys:
            self._write(lambda: self._delete_rounds(keys))

    def add_record(self, record: Record) -> None:
        """While the store's server does not answer, the rounds that the record was made of are enough to keep."""
        self._records[record.case.key] = record
        self._write(lambda: self._insert_record(record))

    def finish(self) -> None:
        """Marks the run as complete. A server that does not answer is waited for; StoreFailed if it stays away."""
        if self._write(self._mark_finished):
            return
        self.on_problem(f"{self._outbox.reason}; waiting for it: at most {LAST_WAIT_S:.0f} s")
        if not self._outbox.wait(LAST_WAIT_S):
            files = ", ".join(str(path) for path in self._unsaved_paths() if path.exists())
            kept = f"; rounds are kept in {files}: --resume delivers them" if files else ""
            raise StoreFailed(f"{self._outbox.reason}{kept}", is_away=True)
        self._remove_unsaved()

    def _write(self, write: Callable[[], None]) -> bool:
        was_away = bool(self._outbox)
        is_written = self._outbox.write(write)
        if was_away and is_written:
            self._remove_unsaved()
            self.on_problem(f"the store {self._store.where} answers again, and has everything")
        return is_written

    def _mark_finished(self) -> None:
        with self._store.transaction() as connection:
            connection.execute(update(schema.runs).where(schema.runs.c.id == self.run).values(finished=True))

    def _insert_record(self, record: Record) -> None:
        """In one transaction, the record replaces the rounds it was made of and the points of its search."""
        rounds, records = schema.rounds.c, schema.records.c
        points = record.search.points if record.search else []
        keys = [msgspec.structs.replace(record.case, batch=point.batch).key for point in points]
        of_run = delete(schema.rounds).where(rounds.run == self.run)
        with self._store.transaction() as connection:
            if connection.scalar(select(records.id).where(records.id == record.id)) is None:
                insert_record(connection, record, auxiliary=self._is_auxiliary)
            connection.execute(of_run.where(rounds.key == record.case.key))
            connection.execute(of_run.where(rounds.key.in_(keys), rounds.position == schema.SEARCH_POINT))

    def _delete_rounds(self, keys: list[str]) -> None:
        rounds = schema.rounds.c
        of_cases = delete(schema.rounds).where(rounds.run == self.run, rounds.key.in_(keys))
        with self._store.transaction() as connection:
            connection.execute(of_cases.where(rounds.position != schema.SEARCH_POINT))

    def load(self) -> None:
        """Reads what earlier processes of this run stored, or could not store and wrote elsewhere."""
        self.take_over(self._store.find(schema.records.c.run == self.run))
        rounds = select(schema.rounds).where(schema.rounds.c.run == self.run)
        for row in self._store.rows(rounds.order_by(schema.rounds.c.position)):
            round_ = decode_round(row.document, f"round {row.position} of {row.key} in {self._store.where}")
            if row.position == schema.SEARCH_POINT:
                self._points[row.key] = round_
            else:
                self._rounds.setdefault(row.key, []).append(round_)
        for case, round_ in self._read_unsaved():
            if self.record(case) is None and round_.index >= len(self.rounds(case)):
                self.add_round(case, round_)

    def _insert_round(self, case: Case, round_: Round, position: int) -> None:
        row = {"run": self.run, "key": case.key, "position": position, "document": encode(round_).decode()}
        with self._store.transaction() as connection:
            insert_missing(connection, schema.rounds, row)

    def _unsaved_paths(self) -> list[Path]:
        """The candidate files for rounds that cannot be stored, best first. Not tempfile.gettempdir(): that writes
        a test file, which fails where every disk but that of the home folder is full."""
        beside = self._store.folder or home_folder("runs")
        folders: list[Path | str | None] = [beside, os.environ.get("TMPDIR", "/tmp"), os.environ.get("HOME")]
        return [Path(folder) / f"tare-{self.run}.unsaved.jsonl" for folder in folders if folder]

    def _write_unsaved(self, case: Case, round_: Round) -> str:
        """Appends the round to a file in the first folder that has room; returns the file's path."""
        for path in self._unsaved_paths():
            try:
                with AppendOnlyFile(path) as file:
                    if os.fstat(file.fileno()).st_uid != os.geteuid():
                        continue
                    file.append(encode((case.key, round_)))
                    return str(path)
            except OSError:
                continue
        return "memory only: no folder can be written"

    def _remove_unsaved(self) -> None:
        for path in self._unsaved_paths():
            # In a shared folder, a file of this name may be somebody else's.
            with contextlib.suppress(OSError):
                path.unlink()

    def _read_unsaved(self) -> Iterator[tuple[Case, Round]]:
        """The rounds that were written elsewhere. A file is removed once all of it was read; a file with a line
        that cannot be read stays."""
        for path in self._unsaved_paths():
            try:
                lines = _read_own(path).splitlines()
            except (OSError, BadInput):
                continue
            all_read = True
            for line in lines:
                try:
                    key, round_ = _unsaved.decode(line)
                    case = Case.parse(key)
                except (*UNREADABLE, BadInput):
                    all_read = False
                    continue
                yield case, round_
            if all_read:
                path.unlink()


def _read_own(path: Path) -> bytes:
    """The content of a file of this user. Anyone may put a file into /tmp, and the id of a run is no secret."""
    if path.lstat().st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to someone else")
    return read_bounded(path)


def begin(
    store: Store,
    name: str,
    fingerprint: str,
    skipped: list[Skip],
    *,
    baseline_side: bool = False,
    confirmation: bool = False,
) -> StoreJournal:
    """A new run, which no other process can resume while the store is open."""
    run = uuid.uuid4().hex[:12]
    store.lock_run(run)
    row = {
        "id": run,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
        "name": name,
        "fingerprint": fingerprint,
        "skipped": msgspec.to_builtins(skipped),
        "baseline_side": baseline_side,
        "confirmation": confirmation,
    }
    with store.transaction() as connection:
        connection.execute(insert(schema.runs).values(row))
    return StoreJournal(store, run, baseline_side or confirmation)


def resume(store: Store, fingerprint: str) -> StoreJournal | None:
    """The newest run of the same plan and options with what it has measured, or None. BadInput if another process
    holds it."""
    runs = schema.runs.c
    columns = (runs.id, runs.created, runs.finished, runs.baseline_side, runs.confirmation)
    statement = select(*columns).where(runs.fingerprint == fingerprint)
    for row in store.rows(statement.order_by(runs.created.desc()).limit(1)):
        # It becomes part of file names, and in a damaged store it can be anything, even bytes.
        if not isinstance(row.id, str) or not row.id.isalnum():
            raise BadInput(f"the store {store.where} is damaged: {quote(row.id)} is not the id of a run")
        store.lock_run(row.id)
        journal = StoreJournal(store, row.id, row.baseline_side or row.confirmation)
        journal.complete_since = row.created if row.finished else ""
        journal.load()
        return journal
    return None
