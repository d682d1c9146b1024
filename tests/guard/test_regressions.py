"""Regressions that a store remembers: found by change points and by checks, once each, with what people say."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders import ENVIRONMENT, make_case, make_record
from msgspec.structs import replace
from sqlalchemy import select

from tare.errors import BadInput
from tare.guard.changes import CaseChange, MetricChange, Report, Stage
from tare.guard.regressions import judge_series, record_report
from tare.records.record import Record
from tare.store import schema
from tare.store.database import Store
from tare.store.regressions import (
    Regression,
    add_note,
    change_regression,
    get_regression,
    notes_of,
    regressions_of,
    save,
)
from tare.system.repository import Repository

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "records.db"))


def nightly(levels: Sequence[float], rung: str = "eager", seed: int = 1) -> list[Record]:
    """A record a night, with 1 % of noise, of a project with a commit a night."""
    source = random.Random(f"{rung}{seed}")
    return [
        make_record(
            make_case(rung=rung),
            steps_s=[level * source.gauss(1, 0.01) for _ in range(3)],
            id=f"{rung}{night}",
            run=f"night{night}{rung}",
            created=(FIRST + timedelta(days=night)).isoformat(),
            project=Repository(commit=f"{night:08x}{0:032}", branch="main"),
        )
        for night, level in enumerate(levels)
    ]


def found(store: Store) -> list[Regression]:
    series = [row.id for row in store.rows(select(schema.series.c.id))]
    return [regression for id_ in series for regression in regressions_of(store, id_).values()]


def judged(store: Store) -> list[Regression]:
    while judge_series(store):
        pass
    return sorted(found(store), key=lambda regression: regression.metric)


def test_a_step_is_found_with_its_place_and_size(store: Store) -> None:
    store.add(nightly([1e-3] * 20 + [1.1e-3] * 20))
    gross, latency = judged(store)
    assert (gross.metric, latency.metric) == ("gross", "latency")
    assert gross.ratio == pytest.approx(1.1, rel=0.02)
    assert gross.low is not None
    assert 1.02 < gross.low < 1.1
    assert (gross.source, gross.state) == ("history", "open")
    # The commit range holds the change.
    nights = [int(label[:8], 16) for label in (gross.before_label, gross.after_label)]
    assert nights[0] < 20 <= nights[1] + 1
    assert nights[1] - nights[0] <= 4


def test_quiet_series_and_improvements_are_no_regressions(store: Store) -> None:
    store.add(nightly([1e-3] * 40))
    store.add(nightly([1e-3] * 20 + [0.8e-3] * 20, rung="compile"))
    assert judged(store) == []


def test_more_points_refine_a_regression_and_do_not_double_it(store: Store) -> None:
    nights = nightly([1e-3] * 20 + [1.1e-3] * 30)
    store.add(nights[:26])
    first = judged(store)
    ids = {regression.metric: regression.id for regression in first}
    change_regression(store, first[0].id, "explained", "ada")
    for night in nights[26:]:
        store.add([night])
        again = judged(store)
        assert [regression.metric for regression in again] == [regression.metric for regression in first]
    stored = {row.id for row in store.rows(select(schema.regressions.c.id))}
    assert stored == set(ids.values())
    kept = get_regression(store, first[0].id)
    assert (kept.state, kept.owner) == ("explained", "ada")


def test_a_level_that_comes_back_is_fixed(store: Store) -> None:
    nights = nightly([1e-3] * 20 + [1.1e-3] * 20 + [1e-3] * 20)
    store.add(nights[:40])
    assert {regression.state for regression in judged(store)} == {"open"}
    store.add(nights[40:])
    assert {regression.state for regression in judged(store)} == {"fixed"}


def test_what_more_points_refute_goes_unless_somebody_wrote_about_it(store: Store) -> None:
    store.add(nightly([1e-3] * 40))
    judged(store)
    (series,) = (row.id for row in store.rows(select(schema.series.c.id)))
    nights = nightly([1e-3] * 40)
    mistaken = Regression(
        series=series, metric="gross", source="history", found=nights[10].created, before_record="eager9",
        after_record="eager10", before_date=nights[9].created, after_date=nights[10].created, before_label="a",
        after_label="b", before=1e-3, after=1.2e-3, ratio=1.2, low=1.1, high=1.3,
    )  # fmt: skip
    noted = replace(
        mistaken, after_record="eager30", before_date=nights[29].created, after_date=nights[30].created
    )
    with store.transaction() as connection:
        save(connection, mistaken)
        save(connection, noted)
    add_note(store, noted.id, "ada", "the machine was moved")
    store.add([replace(nights[39], id="one-more", run="one-more", created="2026-03-01T00:00:00+00:00")])
    assert [regression.id for regression in judged(store)] == [noted.id]


def test_records_that_failed_or_differ_are_no_points(store: Store) -> None:
    nights = nightly([1e-3] * 20 + [5e-3] * 20)
    wrong = [
        replace(record, parity=replace(record.parity, status="different")) if night >= 20 else record
        for night, record in enumerate(nights)
    ]
    store.add(wrong)
    assert judged(store) == []


def check_report(stage: Stage = "confirmed", records: tuple[str, ...] = ("eager0", "eager1")) -> Report:
    change = MetricChange(
        metric="gross", unit="s", exact=False, a=1e-3, b=1.2e-3, ratio=1.2, low=1.15, high=1.25, rounds_a=6,
        rounds_b=6, threshold=0.07, margin=0.02, verdict="slower", worse=True, regression=True, stage=stage,
    )  # fmt: skip
    case = CaseChange(case=make_case().family, state="compared", changes=[change], records=records)
    return Report(a="baseline", b="now", created="2026-01-02", cases=[case])


def test_what_a_check_confirmed_is_kept_once(store: Store) -> None:
    store.add(nightly([1e-3, 1.2e-3]))
    assert len(record_report(store, check_report())) == 1
    assert len(record_report(store, check_report())) == 1
    (kept,) = found(store)
    assert (kept.source, kept.ratio, kept.before_record, kept.after_record) == ("check", 1.2, "eager0", "eager1")
    assert kept.after_label.endswith("torch 2.10.0")
    assert record_report(store, check_report("not confirmed")) == []
    assert record_report(store, check_report(records=("eager0",))) == []


def test_another_machine_is_another_series(store: Store) -> None:
    other = replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, "cpu": "another"})
    slow = [
        replace(record, environment=other, id=f"other{record.id}", run=f"other{record.run}")
        for record in nightly([1.1e-3] * 20)
    ]
    store.add([*nightly([1e-3] * 20), *slow])
    assert judged(store) == []


def test_notes_and_states_are_checked(store: Store) -> None:
    store.add(nightly([1e-3, 1.2e-3]))
    (kept,) = record_report(store, check_report())
    add_note(store, kept.id, "ada", " known: new driver \n")
    (note,) = notes_of(store, [kept.id])[kept.id]
    assert (note.author, note.text) == ("ada", "known: new driver")
    for text in ("", "   ", "x" * 4001):
        with pytest.raises(BadInput, match="a note has 1 to 4000 characters"):
            add_note(store, kept.id, "ada", text)
    with pytest.raises(BadInput, match=r"unknown state 'gone' \(valid: explained, fixed, open\)"):
        change_regression(store, kept.id, "gone", "")
    with pytest.raises(BadInput, match="at most 100 characters"):
        change_regression(store, kept.id, "open", "a\nb")
    with pytest.raises(BadInput, match="no regression 'none'"):
        get_regression(store, "none")
