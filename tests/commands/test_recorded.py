"""Records of earlier runs in the place of new measurements: which, how many, how old."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record
from ceilings import plant_peaks
from commandline import tare

from tare.cases.case import Case
from tare.commands.run import comparable_records, count_reused
from tare.records.record import Record
from tare.report.overview import ReusedRecords, reused_line
from tare.store.database import Store
from tare.store.journal import begin

ASKED = ("mlp", "--device", "cpu", "--rung", "eager", "--quick", "--budget", "0.3")


def stored(name: str, at: str, **overrides: Any) -> Record:
    fields: dict[str, Any] = {"id": name, "run": name, "created": f"2026-07-{at}T00:00:00+00:00"}
    return make_record(**(fields | overrides))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "r.db"))


def taken(store: Store) -> list[str]:
    return [record.id for record in comparable_records(store, [make_case()], ENVIRONMENT)]


def test_the_newest_of_each_case_is_taken_newest_first(store: Store) -> None:
    other = make_case(batch=7)
    kept = [stored("a", "03"), stored("b", "05"), stored("c", "04"), stored("d", "01", case=other)]
    store.add(kept)
    assert taken(store) == ["b", "d"]


@pytest.mark.parametrize(
    ("group", "name"), [("machine", "cpu"), ("software", "torch"), ("flags", "env.OMP_NUM_THREADS")]
)
def test_what_was_measured_elsewhere_is_not_taken(store: Store, group: str, name: str) -> None:
    fields = getattr(ENVIRONMENT, group) | {name: "another"}
    elsewhere = msgspec.structs.replace(ENVIRONMENT, **{group: fields})
    store.add([stored("here", "01"), stored("elsewhere", "02", environment=elsewhere)])
    assert taken(store) == ["here"]


def test_flags_that_a_worker_pins_and_circumstances_do_not_matter(store: Store) -> None:
    pinned = msgspec.structs.replace(
        ENVIRONMENT, flags=ENVIRONMENT.flags | {"cudnn.benchmark": "True"}, circumstances={"host": "renamed"}
    )
    store.add([stored("pinned", "02", environment=pinned)])
    assert taken(store) == ["pinned"]


def test_a_failure_stands_for_its_case_and_another_workload_for_none(store: Store) -> None:
    other = make_case(workload="lstm")
    store.add([stored("good", "01"), stored("bad", "02", failure=make_failure())])
    store.add([stored("other", "03", case=other)])
    assert taken(store) == ["bad"]


def test_what_a_check_measured_beside_its_run_is_not_taken(store: Store) -> None:
    beside = begin(store, "plan", "mark", [], confirmation=True)
    store.add([stored("asked", "01"), stored("looked", "02", run=beside.run)])
    assert taken(store) == ["asked"]


def test_how_many_and_how_old() -> None:
    now = datetime.fromisoformat("2026-07-06T00:00:00+00:00")
    records = [stored("a", "05"), stored("b", "03", failure=make_failure())]
    found = count_reused(records, 4, now)
    assert found == ReusedRecords(taken=2, planned=4, failed=1, oldest=records[1].created, oldest_age_s=3 * 86_400)
    line = "2 of 4 cases taken from the store; the oldest was measured 3 days ago; 1 failure among them"
    assert reused_line(found) == line


def test_none_taken_and_an_age_that_nobody_knows() -> None:
    assert reused_line(count_reused([], 1)) == "0 of 1 case taken from the store"
    for odd in ("yesterday", "2026-07-01T00:00:00"):
        found = count_reused([make_record(created=odd)], 1)
        assert found.oldest_age_s is None
        assert reused_line(found).endswith(f"measured {odd}")


@pytest.mark.full
def test_a_run_measures_only_what_is_not_recorded(tmp_path: Path) -> None:
    (record,) = json.loads(tare(tmp_path, "run", *ASKED, "--json").stdout)["records"]
    asked = ("run", "mnist_cnn", *ASKED, "--recorded")
    done = tare(tmp_path, *asked, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {one["case"]["workload"]: one["id"] for one in found["records"]}["mlp"] == record["id"]
    assert (found["recorded"]["taken"], found["recorded"]["planned"]) == (1, 2)
    again = tare(tmp_path, *asked)
    assert "2 of 2 cases taken from the store; the oldest was measured" in again.stdout
    assert len(json.loads(tare(tmp_path, "list", "records", "--json").stdout)) == 2
    # Without being asked for, nothing is taken and nothing said of it.
    assert json.loads(tare(tmp_path, "run", *ASKED, "--json").stdout)["recorded"] is None


@pytest.mark.full
def test_what_was_run_is_explained_without_measuring_it_again(tmp_path: Path) -> None:
    plant_peaks(tmp_path)
    run = json.loads(tare(tmp_path, "run", *ASKED, "--json").stdout)
    (record,) = run["records"]
    asked = ("explain", "mnist_cnn", *ASKED, "--no-stacks", "--recorded")
    done = tare(tmp_path, *asked, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["workload"] for one in found["explanations"]] == ["mnist_cnn", "mlp"]
    assert Path(found["explanations"][1]["trace"]).name.startswith(record["id"])
    assert (found["recorded"]["taken"], found["recorded"]["planned"]) == (1, 2)
    assert found["recorded"]["oldest"] == record["created"]
    assert found["recorded"]["oldest_age_s"] > 0
    traces = {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()}
    again = tare(tmp_path, *asked)
    assert again.returncode == 0, again.stderr
    assert "2 of 2 cases taken from the store; the oldest was measured" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "traces").iterdir()} == traces
    listed = json.loads(tare(tmp_path, "list", "records", "--json").stdout)
    assert len(listed) == 2


@pytest.mark.full
def test_a_batch_that_was_searched_for_is_not_searched_for_again(tmp_path: Path) -> None:
    plant_peaks(tmp_path)
    asked = ("dqn", "--smoke", "--device", "cpu", "--rung", "eager", "--batch", "auto", "--quick")
    (record,) = json.loads(tare(tmp_path, "run", *asked, "--budget", "0.2", "--json").stdout)["records"]
    done = tare(tmp_path, "explain", *asked, "--no-stacks", "--recorded", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["case"] for one in found["explanations"]] == [msgspec.convert(record["case"], Case).key]
    assert found["recorded"]["taken"] == 1
