"""Looking after a store: what check finds and repair mends, copies that go on, samples that are dropped."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from builders import make_case, make_record, make_round, make_series
from msgspec.structs import replace

from tare.commands.records import import_files
from tare.errors import BadInput
from tare.records.figures import gross
from tare.records.record import Record
from tare.report.files import write_lines
from tare.store import schema
from tare.store.baselines import get_baseline, set_baseline
from tare.store.database import Store
from tare.store.journal import begin
from tare.store.maintenance import (
    check_store,
    copy_store,
    drop_finished_rounds,
    drop_samples,
    exported_lines,
    give_back_space,
    repair,
)

FAILED = make_record(make_case(rung="aot"), id="failed", created="2026-01-03T00:00:00+00:00")


def dated(day: int, batch: int = 32, blocks: int = 10) -> Record:
    rounds = [
        make_round(index, series=[make_series("pipelined", 1e-3 * (1 + index / 100), blocks=blocks)])
        for index in range(3)
    ]
    created = f"2026-02-{day:02}T00:00:00+00:00"
    return make_record(
        make_case(batch=batch), id=f"day{day}b{batch}", run=f"run{day}", created=created, rounds=rounds
    )


@pytest.fixture
def filled(store: Store) -> Store:
    store.add([dated(day, batch) for day in (1, 2, 3) for batch in (1, 32)])
    set_baseline(store, "main", [dated(1, 32)])
    return store


def problems(store: Store) -> list[tuple[str, str]]:
    return [(problem.subject, problem.text) for problem in check_store(store)]


def test_a_series_says_what_its_newest_record_is(filled: Store) -> None:
    rows = filled.rows(sa.select(schema.series).order_by(schema.series.c.batch))
    assert [(row.points, row.first[:10], row.last[:10], row.record) for row in rows] == [
        (3, "2026-02-01", "2026-02-03", "day3b1"),
        (3, "2026-02-01", "2026-02-03", "day3b32"),
    ]
    # An older record that comes later is a point, and not the newest.
    filled.add([replace(dated(1, 32), id="late", run="other")])
    (row,) = filled.rows(sa.select(schema.series).where(schema.series.c.batch == 32))
    assert (row.points, row.record, row.machine) == (4, "day3b32", schema.machine_id(dated(1)))
    assert row.gross == pytest.approx(1.01e-3)


def test_a_healthy_store_has_no_problem(filled: Store) -> None:
    assert problems(filled) == []


@pytest.mark.parametrize(
    ("damage", "subject", "text", "mended"),
    [
        (
            "UPDATE records SET rung = 'other' WHERE id = 'day1b1'",
            "record day1b1",
            "differs from its document",
            True,
        ),
        (
            "UPDATE documents SET document = '' WHERE record = 'day1b1'",
            "record day1b1",
            "is not a record",
            False,
        ),
        ("DELETE FROM documents WHERE record = 'day1b1'", "record day1b1", "no document", False),
        ("DELETE FROM records WHERE id = 'day3b1'", "document day3b1", "belongs to no record", False),
        ("UPDATE series SET points = 9", "series ", "it says 9 records", True),
        ("DELETE FROM records WHERE id = 'day1b32'", "baseline main", "its record day1b32 is not", False),
    ],
)
def test_damage_is_found_and_mended_where_it_can_be(
    filled: Store, damage: str, subject: str, text: str, mended: bool
) -> None:
    with filled.transaction() as connection:
        connection.exec_driver_sql(damage)
    assert any(found.startswith(subject) and text in why for found, why in problems(filled)), problems(filled)
    if mended:
        repair(filled)
        assert problems(filled) == []


def test_a_copy_is_complete_and_can_be_repeated(filled: Store, tmp_path: Path) -> None:
    begin(filled, "plan", "mark", []).add_round(make_case(rung="compile"), make_round(0))
    with Store(str(tmp_path / "copy.db")) as target:
        target.add([dated(2, 32), dated(9, 32)])
        assert copy_store(filled, target) == 5
        assert copy_store(filled, target) == 0
        assert {record.id for record in target.find()} == {r.id for r in filled.find()} | {"day9b32"}
        assert [record.id for record in get_baseline(target, "main")] == ["day1b32"]
        assert len(target.rows(sa.select(schema.rounds))) == 1
        assert problems(target) == []
        (row,) = target.rows(sa.select(schema.series).where(schema.series.c.batch == 32))
        assert (row.points, row.record) == (4, "day9b32")


def test_old_samples_go_and_figures_stay(store: Store) -> None:
    old, new = dated(1, blocks=2000), dated(20, blocks=2000)
    store.add([old, new])
    assert drop_samples(store, "2026-02-10T00:00:00+00:00") == 1
    kept_old, kept_new = store.find()
    assert kept_new == new
    assert gross(kept_old) == gross(old)
    assert len(kept_old.rounds[0].series[0].wall_ns) < 110
    assert drop_samples(store, "2026-02-10T00:00:00+00:00") == 0
    assert problems(store) == []
    give_back_space(store)
    assert len(store.find()) == 2


def test_rounds_of_a_complete_run_go(store: Store) -> None:
    for name in ("done", "begun"):
        journal = begin(store, name, name, [])
        journal.add_round(make_case(), make_round(0))
        if name == "done":
            journal.finish()
    assert drop_finished_rounds(store) == 1
    assert len(store.rows(sa.select(schema.rounds))) == 1


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
def test_an_export_of_lines_can_be_imported(filled: Store, tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / name, exported_lines(filled.records()))
    (done,) = import_files([tmp_path / name], str(tmp_path / "other.db"))
    assert (done.found, done.new) == (6, 6)
    with Store(str(tmp_path / "other.db")) as other:
        assert other.find() == filled.find()


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_a_damaged_line_is_named(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    write_lines(path, [*exported_lines(filled.records()), b"{}\n"])
    with pytest.raises(BadInput, match=r"all\.jsonl, line 7 is not a record"):
        import_files([path], str(tmp_path / "other.db"))
