"""The terms by which a user chooses records."""

from pathlib import Path

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record
from msgspec.structs import replace

from tare.errors import BadInput
from tare.records.record import Parity, Record
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.selection import auxiliary_runs, filter_records, find_in_store, newest_run

OTHER = replace(ENVIRONMENT, machine={"cpu": "other"})
RECORDS = {
    "a": make_record(),
    "b": make_record(make_case(rung="compile:max", batch=8, threads=2)),
    "c": make_record(make_case(workload="mlp_wide", sizes={"width": 512})),
    "d": make_record(make_case(mode="train", device="cuda:1", precision="bf16"), environment=OTHER),
    "e": make_record(make_case(workload="cnn", sizes={"resolution": 32}), failure=make_failure(cause="timeout")),
    "f": make_record(make_case(layout="channels-last", feed="pinned"), parity=Parity(status="different")),
}


def stored(store: Store, record: Record, id_: str, run: str, day: int) -> None:
    made = replace(record, id=id_, run=run, created=f"2026-01-{day:02d}T00:00:00+00:00")
    StoreJournal(store, run).add_record(made)


@pytest.fixture
def store(address: str) -> Store:
    store = Store(address)
    for day, (id_, record) in enumerate(RECORDS.items(), 1):
        stored(store, record, id_, "run1" if day <= 3 else "run2", day)
    return store


def found(store: Store, *terms: str) -> str:
    """The ids of the records that the terms select in the store; the same as without a database."""
    records = find_in_store(terms, store).records
    assert filter_records(store.find(), terms).records == records
    return "".join(record.id for record in records)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], "abcdef"),
        # A workload, and never one whose name only begins alike (in LIKE, _ would match any character).
        (["mlp"], "abdf"),
        (["mlp_wide"], "c"),
        (["mlpXwide"], ""),
        (["ml"], ""),
        # The beginning of a key.
        (["mlp/eager"], "adf"),
        (["mlp/eager/"], "adf"),
        (["mlp/compile"], ""),
        (["mlp/compile:max"], "b"),
        ([make_case().key], "a"),
        # Globs, where only the star is special.
        (["mlp/*/train/*"], "d"),
        (["*/batch=32,width=512/*"], "c"),
        (["mlp*"], "abcdf"),
        (["mlp_*"], "c"),
        (["%*"], ""),
        (["mlp.*"], ""),
        (["m**lp*"], "abcdf"),
        # Capitals count, on every database.
        (["MLP"], ""),
        (["mlp/EAGER"], ""),
        (["mlp/*/TRAIN/*"], ""),
        (["rung=Eager"], ""),
        # A record, a run.
        (["b"], "b"),
        (["run1"], "abc"),
        # field=value: alternatives within one term, all terms must hold.
        (["rung=eager"], "acdef"),
        (["rung=eager,compile:max"], "abcdef"),
        (["mode=train"], "d"),
        (["device=cuda:1"], "d"),
        (["precision=bf16,fp16"], "d"),
        (["batch=8"], "b"),
        (["batch=008"], "b"),
        (["batch=8,32"], "abcdef"),
        (["threads=2"], "b"),
        (["feed=pinned"], "f"),
        (["layout=contiguous"], "abcde"),
        (["optimizer=sgd"], "d"),
        (["status=ok"], "abcdf"),
        (["status=timeout,exception"], "e"),
        (["parity=different"], "f"),
        (["environment=" + OTHER.id], "d"),
        (["run=run2"], "def"),
        (["id=a,f"], "af"),
        (["width=64"], "abdf"),
        (["width=64,512"], "abcdf"),
        (["resolution=32"], "e"),
        (["width=1"], ""),
        (["mlp", "batch=32", "mode=infer"], "af"),
        (["mlp", "cnn"], ""),
        (["batch=8", "batch=32"], ""),
    ],
)
def test_terms(store: Store, terms: list[str], expected: str) -> None:
    assert found(store, *terms) == expected


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("colour=red", "unknown field 'colour'.*batch.*a size of its workload.*torch"),
        ("widht=3", "unknown field 'widht'; did you mean 'width'"),
        ("=3", "unknown field ''"),
        ("batch=", "names no value: write batch=VALUE"),
        ("batch=,", "names no value"),
        ("batch=many", "batch is a whole number, not 'many'"),
        ("batch=-1", "batch is a whole number"),
        ("batch=1.5", "batch is a whole number"),
        ("batch=٣", "batch is a whole number"),
        ("batch=99999999999999999999", "batch is a whole number"),
        ("width=" + "9" * 5000, "width is a whole number"),
        ("threads=x", "threads is a whole number"),
        ("\udcff", r"'\\udcff' is not the text of"),
        ("a\nb", "is not the text of"),
    ],
)
def test_a_wrong_term_is_refused(store: Store, term: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        find_in_store([term], store)


def test_records_come_oldest_first(store: Store) -> None:
    stored(store, RECORDS["a"], "zz", "run0", 0)
    assert found(store) == "zzabcdef"


def test_the_newest_run_is_the_one_that_wrote_last(store: Store, tmp_path: Path) -> None:
    assert {record.run for record in newest_run(store)} == {"run2"}
    assert newest_run(Store(str(tmp_path / "empty.db"))) == []
    stored(store, RECORDS["b"], "late", "run0", 30)
    assert [record.id for record in newest_run(store)] == ["late"]


@pytest.mark.parametrize("flag", ["baseline_side", "confirmation"])
def test_an_auxiliary_run_of_a_check_is_not_the_newest_run(store: Store, flag: str) -> None:
    side = begin(store, "night", "mark", [], **{flag: True})
    begin(store, "night", "other", [])
    stored(store, RECORDS["b"], "beside", side.run, 30)
    assert {record.run for record in newest_run(store)} == {"run2"}
    assert auxiliary_runs(store) == {side.run}
