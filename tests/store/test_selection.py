"""Selectors, which name one side of a comparison, and the messages for invalid ones."""

import gzip
from pathlib import Path

import msgspec
import pytest
from builders import ENVIRONMENT, make_case, make_record

from tare.errors import BadInput
from tare.records.record import Record
from tare.report.formats.json import records_json
from tare.store.baselines import set_baseline
from tare.store.database import Store
from tare.store.journal import begin
from tare.store.selection import find_in_store, select_records


def versioned(torch: str, **circumstances: str) -> Record:
    environment = msgspec.structs.replace(
        ENVIRONMENT,
        software={**ENVIRONMENT.software, "torch": torch},
        circumstances={**ENVIRONMENT.circumstances, **circumstances},
    )
    return make_record(environment=environment)


@pytest.fixture
def store(address: str) -> Store:
    """Three runs: torch 2.9.1, then 2.10.0 twice; and the auxiliary runs of a check."""
    opened = Store(address)
    runs: list[tuple[str, Record, dict[str, bool]]] = [
        ("one", versioned("2.9.1+cpu", tare_commit="abcdef123456"), {}),
        ("two", versioned("2.10.0+cpu"), {}),
        ("three", versioned("2.10.0+cpu"), {}),
        ("check night", versioned("2.10.0+cpu"), {"baseline_side": True}),
        ("check night", versioned("2.10.0+cpu"), {"confirmation": True}),
        ("check night", versioned("2.10.0+cpu"), {"baseline_side": True, "confirmation": True}),
    ]
    for day, (name, record, flags) in enumerate(runs, 1):
        journal = begin(opened, name, name, [], **flags)
        stamped = msgspec.structs.replace(
            record, id=f"record{day:06}", run=journal.run, created=f"2026-01-{day:02}T00:00:00+00:00"
        )
        journal.add_record(stamped)
        if name == "two":
            other = make_record(make_case(batch=1), id="record0batch", run=journal.run, created=stamped.created)
            journal.add_record(other)
    return opened


def ids(text: str, store: Store) -> list[str]:
    return [record.id for record in select_records(text, store).records]


def test_runs_by_age(store: Store) -> None:
    assert ids("newest", store) == ["record000003"]
    assert sorted(ids("newest~1", store)) == ["record000002", "record0batch"]
    assert ids("newest~2", store) == ["record000001"]
    with pytest.raises(BadInput, match="no record is selected by 'newest~3'"):
        select_records("newest~3", store)


def test_a_query_may_name_the_newest_run(store: Store) -> None:
    for text in ("newest", "newest~1"):
        wanted = {record.id for record in select_records(text, store).records}
        assert wanted
        assert wanted <= {record.id for record in find_in_store([text], store).records}
        assert len({record.run for record in find_in_store([text], store).records}) == 1
    assert not find_in_store(["newest~99"], store).records


@pytest.mark.parametrize("term", ["src/my nets.py::Net", "/work/my nets.py::Net/eager", "my-nets.py::Net"])
def test_a_model_by_the_path_with_which_it_was_measured(store: Store, term: str) -> None:
    record = make_record(make_case(workload="my-nets.py::Net"), id="mine", run="own")
    store.add([record])
    assert [each.id for each in find_in_store([term], store).records] == [record.id]
    assert not find_in_store([term.replace("Net", "Other")], store).records


def test_runs_and_records_by_id(store: Store) -> None:
    run = select_records("newest", store).records[0].run
    assert ids(run, store) == ids(f"run={run}", store) == ["record000003"]
    assert ids("record000001", store) == ["record000001"]


def test_baselines_by_name(store: Store) -> None:
    set_baseline(store, "main", select_records("newest~2", store).records)
    assert ids("main", store) == ids("baseline:main", store) == ["record000001"]
    with pytest.raises(BadInput, match="unknown baseline 'man'"):
        select_records("baseline:man", store)


def test_versions_with_and_without_their_build(store: Store) -> None:
    selection = select_records("torch=2.9.1", store)
    assert [record.id for record in selection.records] == ["record000001"]
    assert selection.environment_fields == {"software.torch"}
    assert ids("torch=2.9.1+cpu", store) == ["record000001"]
    with pytest.raises(BadInput, match="no record"):
        select_records("torch=2.9", store)


def test_the_newest_record_stands_for_its_case(store: Store) -> None:
    assert ids("torch=2.10.0 batch=32", store) == ["record000006"]


def test_terms_are_joined_by_spaces(store: Store) -> None:
    assert ids("torch=2.10.0 batch=1", store) == ["record0batch"]
    assert ids("mlp/eager batch=1", store) == ["record0batch"]


def test_values_with_spaces_alone_or_in_quotes(store: Store) -> None:
    elsewhere = msgspec.structs.replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, "gpu": "NVIDIA H200"})
    journal = begin(store, "gpu", "gpu", [])
    journal.add_record(make_record(environment=elsewhere, id="record0h200", run=journal.run))
    selection = select_records("gpu=NVIDIA H200", store)
    assert [record.id for record in selection.records] == ["record0h200"]
    assert selection.environment_fields == {"machine.gpu"}
    assert ids("gpu='NVIDIA H200' rung=eager", store) == ["record0h200"]
    with pytest.raises(BadInput, match="no record"):
        select_records("gpu='NVIDIA H200' rung=compile", store)
    with pytest.raises(BadInput, match="cannot be split into terms: No closing quotation"):
        select_records("gpu='NVIDIA", store)


def test_several_values_of_an_environments_field(store: Store) -> None:
    assert ids("torch=2.8.0,2.9.1", store) == ["record000001"]
    assert sorted(ids("torch=2.9.1,2.10.0", store)) == ["record000006", "record0batch"]


def test_commits_by_their_beginning(store: Store) -> None:
    assert ids("tare_commit=abcdef", store) == ["record000001"]


def test_files(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(records_json([versioned("2.8.0")]))
    assert select_records(str(path), store).records[0].environment.software["torch"] == "2.8.0"
    with pytest.raises(BadInput, match="cannot read"):
        select_records(str(tmp_path / "none.json"), store)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour=red", "unknown field 'colour'.*torch"),
        ("torch=", "names no value"),
        ("nothing_like_it", "no record is selected"),
        ("batch=many", "whole number"),
    ],
)
def test_an_invalid_selector_is_refused(store: Store, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        select_records(text, store)


@pytest.mark.parametrize("name", ["records.json", "two nights.json.gz"])
@pytest.mark.parametrize("pattern", ["{file} {terms}", "{terms} {file}"])
def test_terms_choose_among_the_records_of_a_file(store: Store, tmp_path: Path, name: str, pattern: str) -> None:
    path = tmp_path / name
    before, now = versioned("2.9.1"), make_record(make_case(batch=1), id="onlyinafile0")
    text = records_json([before, now]).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)

    def chosen(terms: str) -> set[str]:
        return {
            record.id for record in select_records(pattern.format(file=f"'{path}'", terms=terms), store).records
        }

    assert chosen("batch=1") == {"onlyinafile0"}
    assert chosen("torch=2.9.1 rung=eager") == {before.id}
    assert select_records(pattern.format(file=f"'{path}'", terms="torch=2.9.1"), store).environment_fields == {
        "software.torch"
    }
    assert len(select_records(str(path), store).records) == 2
    with pytest.raises(BadInput, match="no record is selected"):
        chosen("batch=77")
    with pytest.raises(BadInput, match=r"none\.json"):
        select_records(f"{tmp_path / 'none.json'} batch=1", store)


def test_a_name_that_no_file_can_have_is_an_error(store: Store) -> None:
    with pytest.raises(BadInput):
        select_records(f"rung=eager {'x' * 300}.json", store)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (["torch=2.9.1"], ["record000001"]),
        (["torch=2.10.0", "batch=1"], ["record0batch"]),
        (["mlp/eager", "cores=2", "torch=2.10.0+cpu", "batch=1"], []),
        (["torch=2.8.0"], []),
        (["rung=vendor", "colour=red"], []),
    ],
)
def test_fields_of_cases_and_environments_are_joined(store: Store, terms: list[str], expected: list[str]) -> None:
    assert [record.id for record in find_in_store(terms, store).records] == expected


def test_an_unknown_field_is_refused_with_the_fields_of_a_record_first(store: Store) -> None:
    message = r"of a record: workload, rung, .*; of its environment: .*torch"
    with pytest.raises(BadInput, match=message) as caught:
        find_in_store(["trch=2.9.1"], store)
    assert "did you mean 'torch'?" in str(caught.value)
