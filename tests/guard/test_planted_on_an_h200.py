"""The faults that were planted on an H200: `compare` finds them in the published records, wherever it runs."""

from pathlib import Path

import pytest

from tare.guard.changes import CaseChange, Report
from tare.guard.compare import Rules, compare_selections
from tare.guard.metrics import METRICS
from tare.guard.thresholds import make_thresholds
from tare.records.codec import read_records
from tare.store.selection import Selection

RECORDS = Path(__file__).parents[2] / "results" / "guard" / "planted-h200.json.gz"
# The sides of the first measurement, and those of its confirmation.
SIDES = {"first": ("544a86b6a571", "25aabc5205c8"), "confirmation": ("602f24c6b103", "ab01d535d360")}
# As benchmarks.guard_real has them for a planted 3 %.
NARROW = {"case": [{"match": "planted_operator", "metric": {"gross": {"threshold": 0.024}}}]}


@pytest.fixture(params=SIDES)
def report(request: pytest.FixtureRequest) -> Report:
    records = read_records(RECORDS)
    before, now = (
        Selection(name, [record for record in records if record.run == name], frozenset())
        for name in SIDES[request.param]
    )
    return compare_selections(before, now, Rules(make_thresholds(NARROW, "here"), METRICS))


def of(report: Report, workload: str) -> CaseChange:
    (found,) = (case for case in report.cases if case.case.startswith(f"{workload}/"))
    return found


def test_three_percent_of_a_step_is_found_and_is_what_was_planted(report: Report) -> None:
    case = of(report, "planted_operator")
    (gross,) = (change for change in case.changes if change.metric == "gross")
    assert (gross.verdict, gross.regression) == ("slower", True)
    assert gross.ratio is not None
    assert gross.low is not None
    assert gross.high is not None
    # The step also has launches, which do not grow: three per cent at most.
    assert 1 < gross.low < gross.ratio < gross.high
    assert gross.ratio == pytest.approx(1.028, abs=0.003)
    assert not case.leaks
    assert {change.metric for change in case.changes if change.regression} <= {"gross", "gross_p5"}


def test_a_leak_is_found_to_the_byte_and_is_the_only_fault(report: Report) -> None:
    case = of(report, "planted_leak")
    assert case.leaks
    assert "64.0 KiB a step" in case.leaks[0]
    assert case.regressions == []


def test_a_synchronisation_and_what_it_launches_are_counted(report: Report) -> None:
    counts = {
        change.metric: (change.a, change.b)
        for change in of(report, "planted_synchronisation").changes
        if change.metric in ("synchronisations", "kernels", "bytes_copied")
    }
    assert counts == {"synchronisations": (0, 1), "kernels": (1, 3), "bytes_copied": (0, 0)}


def test_a_copy_needs_no_confirmation() -> None:
    copied = [record for record in read_records(RECORDS) if record.case.workload == "planted_copy"]
    assert {record.run for record in copied} == set(SIDES["first"])
    before, now = sorted(record.rounds[0].counts["bytes_copied"] for record in copied)
    assert (before, now) == (0, 64)
