"""What a repeat of benchmarks/guard_real.py keeps: the accused and the nearest, with the rounds they stand on."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import make_case, make_record

from benchmarks.guard_evidence import NEAREST, evidence, records_of
from tare.errors import TareError
from tare.guard.changes import CaseChange, MetricChange, Report
from tare.store.database import Store
from tare.store.journal import begin

CASE = make_case(batch=1)


def change(metric: str, **fields: Any) -> MetricChange:
    facts: dict[str, Any] = {"metric": metric, "unit": "s", "exact": False, "a": 1.0, "b": 1.0, "ratio": 1.0}
    facts |= {"rounds_a": 3, "rounds_b": 3, "threshold": 0.07, "margin": 0.02, "verdict": "undecided"}
    return MetricChange(**(facts | fields))


def report(*changes: MetricChange, **fields: Any) -> dict[str, Any]:
    case = CaseChange(case=CASE.key, **{"state": "compared", "changes": list(changes), **fields})
    built: dict[str, Any] = msgspec.to_builtins(Report(a="a", b="b", created="", cases=[case]))
    return built


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The runs of one check, with other figures in each."""
    path = tmp_path / "records.db"
    with Store(str(path)) as opened:
        for i, (confirmation, side) in enumerate(itertools.product((False, True), repeat=2), start=1):
            journal = begin(opened, "check x", f"{i}", [], baseline_side=side, confirmation=confirmation)
            journal.add_record(make_record(CASE, [i * 1e-3, i * 1.1e-3], id=f"r{i}", run=journal.run))
    return path


def test_an_alarm_is_kept_whole_with_the_rounds_of_its_confirmation(store: Path) -> None:
    accused = change("gross", stage="confirmed", worse=True, p=0.001, adjusted_p=0.002)
    (alarm,) = evidence(report(accused, change("latency")), store)["alarms"]
    assert alarm["case"] == CASE.key
    assert alarm["change"] == msgspec.to_builtins(accused)
    assert alarm["rounds"] == {"now": [3e-3, 3.3e-3], "baseline": [4e-3, 4.4e-3]}
    assert alarm["began"] <= alarm["last"]


def test_what_was_never_measured_again_has_the_first_rounds(store: Path) -> None:
    (alarm,) = evidence(report(change("gross", worse=True)), store)["alarms"]
    assert alarm["rounds"] == {"now": [1e-3, 1.1e-3], "baseline": [2e-3, 2.2e-3]}


def test_the_nearest_suspects_come_first_and_the_others_are_left_out(store: Path) -> None:
    near = [
        change("latency", stage="not confirmed", p=0.9, adjusted_p=0.9),
        change("gross", stage="not confirmed", p=0.02, adjusted_p=0.03),
        change("preparation", stage="not confirmed", p=0.01, adjusted_p=0.03),
        change("host_peak", stage="not confirmed", p=None, adjusted_p=None),
        change("energy", p=1e-9, adjusted_p=1e-9),
    ]
    kept = evidence(report(*near), store)
    assert kept["alarms"] == []
    assert [one["change"]["metric"] for one in kept["nearest"]] == ["preparation", "gross", "latency"]
    assert len(kept["nearest"]) == NEAREST


@pytest.mark.parametrize(
    "fields", [{"leaks": ["64 KiB a step"]}, {"state": "broken", "changes": [], "reason": "exception: it broke"}]
)
def test_a_case_that_leaks_or_breaks_is_an_alarm(store: Path, fields: dict[str, Any]) -> None:
    (alarm,) = evidence(report(**fields), store)["alarms"]
    assert alarm["case"] == CASE.key
    assert all(alarm[name] == value for name, value in fields.items() if name != "changes")


def test_a_store_with_two_checks_is_refused(store: Path) -> None:
    with Store(str(store)) as opened:
        journal = begin(opened, "check x", "again", [])
        journal.add_record(make_record(CASE, id="r9", run=journal.run))
    with pytest.raises(TareError, match="more than one check"):
        records_of(store, CASE.key, again=False)
