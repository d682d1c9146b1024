"""Operators and kernels that two records call differently."""

from typing import Any

from builders import make_record, make_round

from tare.guard.changes import CaseChange, call_counts, compare_calls
from tare.guard.compare import Rules, compare_selections
from tare.guard.metrics import METRICS
from tare.guard.thresholds import Thresholds
from tare.records.record import Record
from tare.store.selection import Selection


def record(**names: Any) -> Record:
    return make_record(rounds=[make_round(i, **names) for i in range(2)])


def test_what_appeared_vanished_and_is_called_otherwise() -> None:
    found = compare_calls(
        {"operator": {"mm": 2, "add": 1, "relu": 3}}, {"operator": {"mm": 2, "add": 4, "clone": 1, "relu": 2}}
    )
    assert [(one.name, one.status, one.before_calls, one.after_calls) for one in found] == [
        ("add", "more calls", 1, 4),
        ("clone", "appeared", 0, 1),
        ("relu", "fewer calls", 3, 2),
    ]
    (gone,) = compare_calls({"kernel": {"gemm": 2, "add": 1}}, {"kernel": {"add": 1}})
    assert (gone.kind, gone.status) == ("kernel", "vanished")


def test_kernels_come_first_and_a_side_without_names_says_nothing() -> None:
    before = record(operators={"mm": 1}, kernels={"gemm": 1})
    now = record(operators={"mm": 2}, kernels={"gemm": 2})
    assert [one.kind for one in compare_calls(call_counts(before), call_counts(now))] == ["kernel", "operator"]
    assert compare_calls(call_counts(record()), call_counts(now)) == []
    assert compare_calls(call_counts(now), call_counts(now)) == []


def test_a_comparison_names_them_with_the_records() -> None:
    before, now = record(operators={"mm": 1}), record(operators={"mm": 1, "clone": 1})
    a, b = (Selection(label, [record], frozenset()) for label, record in (("a", before), ("b", now)))
    (case,) = compare_selections(a, b, Rules(Thresholds(), METRICS)).cases
    assert isinstance(case, CaseChange)
    assert [one.name for one in case.call_changes] == ["clone"]
    assert case.records == (before.id, now.id)
