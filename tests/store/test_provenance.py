"""Records by tag, by the commit and branch of the user's project, and by the family of an own model."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from builders import make_case, make_record

from tare.errors import BadInput
from tare.records.record import Record
from tare.store.database import Store
from tare.store.selection import find_in_store, newest_in_each_environment, select_records
from tare.system.repository import Repository

COMMIT = "1234567890abcdef1234567890abcdef12345678"
OWN = {"workload": "my.py::Model", "sizes": {}, "inputs": "32x8"}


def made(day: int, source: str | None = None, **overrides: Any) -> Record:
    case = make_case(**OWN, source=source) if source else make_case()
    created = f"2026-01-{day:02}T00:00:00+00:00"
    return make_record(case, id=f"record{day}", run=f"run{day}", created=created, **overrides)


@pytest.fixture
def store(address: str) -> Store:
    opened = Store(address)
    main = Repository(commit=COMMIT, branch="topic/faster", dirty=False)
    opened.add(
        [
            made(1, tags={"pr": "12", "note": "cold, first"}),
            made(2, tags={"pr": "13"}, project=main),
            made(3, "aaaaaaaa", project=Repository(commit=COMMIT[::-1], branch="", dirty=True)),
            made(4, "bbbbbbbb"),
        ]
    )
    return opened


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (["tag.pr=12"], "1"),
        (["tag.pr=12,13"], "12"),
        (["tag.note=cold, first"], "1"),
        (["tag.pr=14"], ""),
        (["tag.pr=13", "branch=topic/faster"], "2"),
        (["commit=123456"], "2"),
        ([f"commit={COMMIT},{COMMIT[::-1]}"], "23"),
        (["commit=1234"], ""),
        (["branch=main"], ""),
        (["inputs=32x8"], "34"),
        (["source=bbbbbbbb"], "4"),
        (["my.py::Model"], "34"),
        ([make_case(**OWN).key], "34"),
        ([make_case(**OWN, source="aaaaaaaa").key], "3"),
    ],
)
def test_terms(store: Store, terms: list[str], expected: str) -> None:
    assert "".join(record.id[-1] for record in find_in_store(terms, store).records) == expected


def test_an_unknown_tag_is_refused_with_those_that_exist(store: Store) -> None:
    with pytest.raises(BadInput, match=r"unknown field 'tag\.rp'.*tag\.pr"):
        find_in_store(["tag.rp=12"], store)


def test_the_newest_of_an_edited_model_stands_for_it(store: Store) -> None:
    """For a comparison or a baseline its versions are one case."""
    assert [record.id for record in select_records("my.py::Model", store).records] == ["record4"]
    records = find_in_store(["my.py::Model"], store).records
    assert [record.id for record in newest_in_each_environment(records)] == ["record4"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_a_family_is_found_by_an_index(tmp_path: Path) -> None:
    family = make_case(**OWN).key
    with sqlite3.connect(tmp_path / "records.db") as connection:
        query = "SELECT id FROM records WHERE family = ? ORDER BY created"
        assert [row[0] for row in connection.execute(query, (family,))] == ["record3", "record4"]
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", (family,)).fetchall()
    assert "records_by_family" in plan[0][-1]
