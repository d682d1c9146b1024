"""An edited model of a user is compared with its old version: the two cases differ in the digest of the source."""

from pathlib import Path
from xml.etree.ElementTree import fromstring

import msgspec
import pytest
from builders import make_case, make_record
from checking import Setting, flat, gross

from tare.cases.case import Case
from tare.guard.changes import Report
from tare.guard.comparable import baseline_records
from tare.guard.compare import Rules, compare_selections
from tare.guard.history import record_histories
from tare.guard.metrics import METRICS, get_metric
from tare.guard.thresholds import Thresholds, make_thresholds
from tare.report.changes import changes_view
from tare.report.formats.benchmark import comparison_benchmark
from tare.report.formats.junit import comparison_junit
from tare.report.formats.markdown import comparison_markdown
from tare.report.terminal import plain_text
from tare.store.selection import Selection

OLD, NEW = (make_case(workload="my.py::Net", inputs="8x16", source=digest) for digest in ("0badc0de", "5eed5eed"))
OTHER_INPUTS = msgspec.structs.replace(NEW, inputs="8x32")
STEADY = [1e-3 * n for n in (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.002, 0.998)]


def compared(before: list[Case], now: list[Case]) -> Report:
    sides = [
        Selection(
            name,
            [make_record(c, STEADY, created=f"2026-01-0{day}T00:00:00+00:00") for day, c in enumerate(cases, 1)],
        )
        for name, cases in (("before", before), ("now", now))
    ]
    return compare_selections(sides[0], sides[1], Rules(Thresholds(), METRICS))


def test_versions_of_a_model_are_compared_and_the_report_says_that_the_source_differs() -> None:
    report = compared([OLD], [NEW])
    (case,) = report.cases
    assert case.case == OLD.family == NEW.family
    assert case.source_change == "0badc0de → 5eed5eed"
    told = "the model's source differs: 0badc0de → 5eed5eed"
    assert told in plain_text(changes_view(report))
    assert told in comparison_markdown(report)
    assert told in "".join(fromstring(comparison_junit(report)).itertext())
    # What follows a series from commit to commit must know it again.
    assert "source=" not in comparison_benchmark(report)
    assert (report.only_a, report.only_b) == ([], [])


def test_an_unchanged_model_is_not_called_edited() -> None:
    report = compared([NEW], [NEW])
    assert report.cases[0].source_change == ""
    assert "source differs" not in plain_text(changes_view(report))


def test_other_inputs_are_another_case() -> None:
    report = compared([OLD, NEW], [OTHER_INPUTS, NEW])
    assert report.only_b == [OTHER_INPUTS.key]


def test_of_several_versions_on_a_side_the_newest_is_compared_and_the_others_are_listed() -> None:
    report = compared([OLD, NEW], [NEW])
    assert [case.source_change for case in report.cases] == [""]
    assert report.only_a == [OLD.key]
    report = compared([NEW, OLD], [NEW])
    assert [case.source_change for case in report.cases] == ["0badc0de → 5eed5eed"]
    assert report.only_a == [NEW.key]


def test_a_stored_baseline_of_the_old_version_finds_the_regression_of_the_new(tmp_path: Path) -> None:
    stored = [make_record(OLD, [1e-3 * (1 + 0.001 * n) for n in range(20)])]
    report = Setting(tmp_path, lambda *_: 1.3e-3, None).run(stored, cases=[NEW])
    assert [case.case for case in report.bad] == [NEW.family]
    assert report.bad[0].source_change == "0badc0de → 5eed5eed"
    (tmp_path / "same").mkdir()
    same = Setting(tmp_path / "same", flat, None).run(stored, cases=[NEW])
    assert gross(same, msgspec.structs.replace(NEW, source=None)).verdict in ("same", "undecided")
    assert baseline_records(stored, [NEW], "main") == stored


@pytest.mark.parametrize("match", ["my.py::Net/eager", NEW.family, NEW.key, "my.py*"])
def test_thresholds_hold_for_the_next_version(match: str) -> None:
    thresholds = make_thresholds({"case": [{"match": match, "threshold": 0.3}]}, "here")
    assert thresholds.of(NEW, get_metric("gross")).threshold == 0.3
    assert thresholds.unused_patterns([NEW]) == []


def test_the_versions_of_a_model_have_one_history() -> None:
    days = [f"2026-01-{day:02}T00:00:00+00:00" for day in range(1, 5)]
    records = [
        make_record(case, created=day, id=f"r{day}") for case, day in zip((OLD, OLD, NEW, NEW), days, strict=True)
    ]
    (history,) = record_histories(records, get_metric("gross"))
    assert (history.name, len(history.points)) == (NEW.family, 4)
