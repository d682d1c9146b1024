"""The mean percentage error of pairs of kernels, with known answers."""

from pathlib import Path
from typing import Any

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record, make_round
from msgspec.structs import replace

from tare.records.codec import read_records
from tare.records.record import Parity, Record
from tare.report.formats import get_record_format
from tare.report.formats.mpe import NOTHING, MeanPercentageError, mean_percentage_errors, records_mpe


def record(rung: str, batch: int, seconds: float, precision: str = "fp32", **fields: Any) -> Record:
    case = replace(make_case(rung=rung), batch=batch, precision=precision)
    return make_record(case, rounds=[make_round(0, seconds)], id=f"{rung}-{batch}-{precision}", **fields)


def test_it_is_the_mean_over_points_of_what_the_second_takes_more() -> None:
    """(1 - 2) / 1 = -1 at one batch, (2 - 1) / 2 = 0.5 at the other."""
    records = [
        record("eager", 1, 1e-3),
        record("compile", 1, 2e-3),
        record("eager", 8, 2e-3),
        record("compile", 8, 1e-3),
    ]
    (pair,) = mean_percentage_errors(records)
    assert (pair.first, pair.second, pair.points, pair.rounds) == ("eager", "compile", 2, 1)
    assert (pair.mean, pair.least, pair.most) == pytest.approx((-0.25, -1.0, 0.5))


def test_a_rung_at_two_precisions_is_two_kernels_and_only_common_points_count() -> None:
    records = [record("eager", 1, 1e-3), record("eager", 8, 1e-3), record("eager", 8, 3e-3, "amp-bf16")]
    (pair,) = mean_percentage_errors(records)
    assert (pair.first, pair.second, pair.points) == ("eager amp-bf16", "eager fp32", 1)
    assert pair.mean == pytest.approx((3 - 1) / 3)


def test_what_computes_something_else_or_failed_is_left_out_and_said() -> None:
    wrong = record("compile", 1, 1e-6, parity=Parity(status="different", error=1.0))
    unknown = record(
        "aot", 1, 1e-6, parity=Parity(status="unchecked", reason="the reference could not be computed")
    )
    broken = record("cudagraph", 1, 1e-6, failure=make_failure())
    text = get_record_format("mpe")(
        [record("eager", 1, 1e-3), record("libtorch", 1, 1e-3), wrong, unknown, broken]
    )
    assert "| eager | libtorch | 0.000 |" in text
    assert "3 records left out" in text
    assert "compile" not in text


def test_times_of_two_machines_are_not_compared() -> None:
    other = replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, "cpu": "another"})
    records = [record("eager", 1, 1e-3), record("compile", 1, 1e-3, environment=other)]
    assert mean_percentage_errors(records) == []
    assert NOTHING in get_record_format("mpe")(records)


def test_the_newest_record_of_a_case_counts() -> None:
    old = replace(record("compile", 1, 9e-3), created="2026-01-01T00:00:00")
    new = replace(record("compile", 1, 1e-3), created="2026-01-02T00:00:00")
    (pair,) = mean_percentage_errors([new, old, record("eager", 1, 1e-3)])
    assert isinstance(pair, MeanPercentageError)
    assert pair.mean == pytest.approx(0.0)


def test_the_table_of_the_document_is_of_the_published_records() -> None:
    root = Path(__file__).parents[2]
    printed = records_mpe(read_records(root / "results" / "frameworks" / "cpu-lstm-fp32.json.gz")).splitlines()
    text = (root / "docs" / "frameworks.md").read_text()
    rows = [line for line in text.splitlines() if line.count("|") == 8 and "first | second" not in line]
    shown = [row for row in rows if row.endswith("| 8 | 3 | same |")]
    assert len(shown) == 9
    assert set(shown) <= set(printed)
