"""Baselines: names for sets of records."""

import pytest
from builders import make_case, make_record
from sqlalchemy import delete

from tare.errors import BadInput
from tare.store import schema
from tare.store.baselines import get_baseline, list_baselines, remove_baseline, set_baseline
from tare.store.database import Store
from tare.store.journal import begin

A = make_record(make_case(), id="record00000a")
B = make_record(make_case(batch=1), id="record00000b")


@pytest.fixture
def store(address: str) -> Store:
    opened = Store(address)
    journal = begin(opened, "plan", "mark", [])
    journal.add_record(A)
    journal.add_record(B)
    return opened


def test_a_name_stands_for_its_records(store: Store) -> None:
    assert set_baseline(store, "main", [A, B]) is False
    assert [r.id for r in get_baseline(store, "main")] == [A.id, B.id]
    assert [(one.name, one.records) for one in list_baselines(store)] == [("main", 2)]


def test_setting_again_replaces(store: Store) -> None:
    set_baseline(store, "main", [A, B])
    assert set_baseline(store, "main", [B]) is True
    assert [r.id for r in get_baseline(store, "main")] == [B.id]


def test_removing_a_baseline_keeps_its_records(store: Store) -> None:
    set_baseline(store, "main", [A])
    set_baseline(store, "other", [A])
    remove_baseline(store, "main")
    assert [one.name for one in list_baselines(store)] == ["other"]
    assert len(store.find()) == 2
    with pytest.raises(BadInput, match=r"unknown baseline 'main'.*valid: other"):
        remove_baseline(store, "main")


def test_an_unknown_name_is_refused_with_the_known_ones(store: Store) -> None:
    set_baseline(store, "main", [A])
    with pytest.raises(BadInput, match="did you mean 'main'"):
        get_baseline(store, "mian")


@pytest.mark.parametrize(
    "name", ["", "a b", "../x", "1st", "x.json", "a=b", "a:b", "-x", "x" * 81, "newline\n", "newest"]
)
def test_invalid_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(BadInput, match="not a valid baseline name"):
        set_baseline(store, name, [A])


def test_an_empty_set_is_refused(store: Store) -> None:
    with pytest.raises(BadInput, match="no record"):
        set_baseline(store, "main", [])


def test_missing_records_are_an_error(store: Store) -> None:
    set_baseline(store, "main", [A])
    with store.transaction() as connection:
        connection.execute(delete(schema.records))
    with pytest.raises(BadInput, match="no longer in"):
        get_baseline(store, "main")
