"""The journal: a result is stored the moment it exists, and --resume loads it."""

import signal

import pytest
from builders import make_case, make_record, make_round
from children import finish, start
from msgspec.structs import replace
from sqlalchemy import func, select

from tare.cases.plan import Skip
from tare.errors import BadInput
from tare.records.record import BatchPoint, BatchSearch
from tare.store import schema
from tare.store.database import Store, StoreFailed
from tare.store.journal import StoreJournal, begin, resume

A, B = make_case(), make_case(rung="compile")


def count(store: Store, table: str) -> int:
    number: int = store.rows(select(func.count()).select_from(schema.metadata.tables[table]))[0][0]
    return number


def resumed(store: Store, fingerprint: str = "mark") -> StoreJournal:
    journal = resume(store, fingerprint)
    assert journal is not None
    return journal


def test_a_journal_knows_its_rounds_and_records_in_order(store: Store) -> None:
    journal = begin(store, "plan", "mark", [])
    for index in (0, 1):
        journal.add_round(A, make_round(index))
    journal.add_round(B, make_round(0))
    again = resumed(store)
    assert again.run == journal.run
    assert again.rounds(A) == journal.rounds(A) == [make_round(0), make_round(1)]
    assert again.rounds(B) == [make_round(0)]
    assert again.rounds(make_case(batch=1)) == []
    assert again.record(A) is None


def test_a_record_replaces_its_rounds_and_no_others(store: Store) -> None:
    journal, other = begin(store, "plan", "mark", []), begin(store, "plan", "other", [])
    for each in (journal, other):
        each.add_round(A, make_round(0))
        each.add_round(B, make_round(0))
    record = make_record(A, run=journal.run)
    journal.add_record(record)
    again = resumed(store)
    assert again.record(A) == journal.record(A) == record
    assert again.rounds(A) == []
    assert again.rounds(B) == [make_round(0)]
    assert resumed(store, "other").rounds(A) == [make_round(0)]
    assert count(store, "rounds") == 3
    assert store.find() == [record]


def test_resume_takes_the_newest_run_of_the_same_fingerprint(store: Store) -> None:
    assert resume(store, "mark") is None
    first = begin(store, "plan", "mark", [])
    second = begin(store, "plan", "mark", [])
    begin(store, "plan", "another", [])
    first.add_round(A, make_round(0))
    assert resumed(store).run == second.run
    assert resumed(store).rounds(A) == []


def test_the_points_of_a_search_are_kept_until_a_record_holds_them(store: Store) -> None:
    journal, other = begin(store, "plan", "mark", []), begin(store, "plan", "other", [])
    points = [BatchPoint(batch=batch, round=make_round(0, 1e-3 * batch)) for batch in (1, 2, 4)]
    for each in (journal, other):
        for point in points:
            each.add_point(make_case(batch=point.batch), point.round)
    # The case at the chosen batch has rounds of its own beside the point.
    journal.add_round(make_case(batch=2), make_round(0))
    again = resumed(store)
    assert [again.point(make_case(batch=point.batch)) for point in points] == [point.round for point in points]
    assert again.point(make_case(batch=8)) is None
    assert again.rounds(make_case(batch=2)) == [make_round(0)]
    found = BatchSearch(chosen=2, stop="throughput", points=points, rung="eager")
    again.add_record(make_record(make_case(batch=2), run=again.run, search=found))
    assert resumed(store).point(make_case(batch=1)) is None
    assert resumed(store, "other").point(make_case(batch=1)) == points[0].round
    assert count(store, "rounds") == 3


def test_a_run_keeps_its_skips_and_whether_it_is_finished(store: Store) -> None:
    journal = begin(store, "plan", "mark", [Skip("key", "unsupported", "no GPU")])
    row = store.rows(select(schema.runs))[0]
    assert (row.name, row.finished) == ("plan", False)
    assert row.skipped == [{"key": "key", "cause": "unsupported", "reason": "no GPU"}]
    journal.finish()
    assert store.rows(select(schema.runs))[0].finished is True


def test_the_same_result_is_not_stored_twice(store: Store) -> None:
    journal = begin(store, "plan", "mark", [])
    record = make_record(A, run=journal.run)
    journal.add_record(record)
    with pytest.raises(StoreFailed, match=r"(?i)unique"):
        journal.add_record(replace(record, id="another"))
    assert store.find() == [record]


def test_rounds_survive_the_kill_of_their_process(address: str) -> None:
    code = """
import os, signal, sys
from builders import make_case, make_record, make_round
from tare.store.database import Store
from tare.store.journal import begin
journal = begin(Store(sys.argv[1]), "plan", "mark", [])
journal.add_round(make_case(), make_round(0))
journal.add_record(make_record(run=journal.run))
for index in range(3):
    journal.add_round(make_case(rung="compile"), make_round(index))
os.kill(os.getpid(), signal.SIGKILL)
"""
    status, output = finish(start(code, address))
    assert (status, output) == (-signal.SIGKILL, "")
    again = resumed(Store(address))
    assert again.record(A) == make_record(run=again.run)
    assert again.rounds(B) == [make_round(0), make_round(1), make_round(2)]


def test_a_damaged_row_is_bad_input_that_names_the_row(store: Store) -> None:
    journal = begin(store, "plan", "mark", [])
    journal.add_record(make_record(A, run=journal.run))
    journal.add_round(B, make_round(0))
    with store.transaction() as connection:
        # What an index holds beside the document is not needed to read it back.
        connection.exec_driver_sql("UPDATE records SET batch = 99")
    assert resumed(store).record(A) is not None
    with store.transaction() as connection:
        connection.exec_driver_sql("UPDATE rounds SET document = '{}'")
    with pytest.raises(BadInput, match=r"round 0 of mlp/compile/.* is not a round: .*missing"):
        resume(store, "mark")
    with store.transaction() as connection:
        connection.exec_driver_sql("UPDATE documents SET document = '\u00ff{'")
    with pytest.raises(BadInput, match=r"record record000001 in .* is not a record"):
        resume(store, "mark")


def test_dropped_rounds_are_gone_and_may_come_again(store: Store) -> None:
    """A ladder that begins anew on another machine: of other cases and of a search, everything stays."""
    journal = begin(store, "plan", "mark", [])
    for case in (A, B):
        journal.add_round(case, make_round(0, node="node-1"))
    journal.add_round(A, make_round(1, node="node-1"))
    journal.add_point(A, make_round(0))
    journal.drop_rounds([A])
    assert (journal.rounds(A), len(journal.rounds(B))) == ([], 1)
    journal.add_round(A, make_round(0, node="node-2"))
    again = StoreJournal(store, journal.run)
    again.load()
    assert [round_.node for round_ in again.rounds(A)] == ["node-2"]
    assert [round_.node for round_ in again.rounds(B)] == ["node-1"]
    assert again.point(A) is not None
    journal.drop_rounds([make_case(batch=99)])
