"""The files of other tools: what is read from them, and how a file that cannot be used is refused."""

import json
import random
from typing import Any

import pytest
from builders import make_record
from mutate import damaged_bytes, damaged_document, odd_values, refuses

from tare.errors import BadInput
from tare.report.formats import get_record_format
from tare.store.database import Store
from tare.store.foreign import add_foreign, decode_foreign, find_foreign

PYPERF: dict[str, Any] = {
    "version": "1.0",
    "metadata": {"cpu_model_name": "A CPU", "python_version": "3.12.1", "commit_id": "abc123"},
    "benchmarks": [
        {
            "metadata": {"name": "json_loads", "unit": "second"},
            "runs": [
                {"warmups": [[1, 0.5]], "metadata": {"calibrate_loops": 8}},
                {"values": [1.0, 3.0, 2.0], "metadata": {"date": "2026-01-02 03:04:05.678"}},
                {"values": [4.0], "metadata": {"date": "2026-01-02 03:05:00"}},
            ],
        }
    ],
}
PYTEST: dict[str, Any] = {
    "machine_info": {
        "node": "host",
        "machine": "aarch64",
        "cpu": {"brand_raw": "A CPU"},
        "python_version": "3.12",
    },
    "commit_info": {"id": "def456", "branch": "main"},
    "benchmarks": [
        {"name": "test_a", "fullname": "tests/test_a.py::test_a[n=3]", "stats": {"median": 0.25, "mean": 0.3}},
        {"name": "test_b", "fullname": "tests/test_a.py::test_b", "stats": {"median": 0.0}},
    ],
    "datetime": "2026-01-02T05:04:05+02:00",
    "version": "5.0.0",
}
GOOGLE: dict[str, Any] = {
    "context": {"date": "2026-01-02T03:04:05Z", "num_cpus": 8, "caches": [{"size": 32768}], "mhz_per_cpu": 3000},
    "benchmarks": [
        {"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration", "real_time": 100.0, "time_unit": "us"},
        {"name": "BM_a/8", "run_name": "BM_a/8", "run_type": "iteration", "real_time": 300.0, "time_unit": "us"},
        {"name": "BM_a/8_mean", "run_name": "BM_a/8", "run_type": "aggregate", "aggregate_name": "mean",
         "real_time": 9.0, "time_unit": "us"},
        {"name": "BM_b_median", "run_name": "BM_b", "run_type": "aggregate", "aggregate_name": "median",
         "real_time": 2.0, "time_unit": "ms"},
        {"name": "BM_c", "error_occurred": True, "error_message": "no device", "real_time": 0.0},
    ],
}  # fmt: skip
ALL = {"pyperf": PYPERF, "pytest-benchmark": PYTEST, "google-benchmark": GOOGLE}


def read(document: Any) -> Any:
    return decode_foreign(json.dumps(document).encode(), "x.json")


def test_pyperf_has_one_value_for_each_process() -> None:
    (point,) = read(PYPERF).points
    assert (point.source, point.name, point.unit, point.commit) == ("pyperf", "json_loads", "s", "abc123")
    assert point.values == [2.0, 4.0]
    assert point.value == 3.0
    assert point.created == "2026-01-02T03:04:05.678000+00:00"
    assert point.machine == {"cpu": "A CPU"}


def test_nan_and_infinity_are_read_as_missing_values() -> None:
    """Google Benchmark writes NaN for an undefined ratio, and Python's JSON for a user's own values."""
    spoilt = json.loads(json.dumps(GOOGLE))
    spoilt["benchmarks"][0]["items_per_second"] = float("nan")
    spoilt["benchmarks"][2]["real_time"] = float("inf")
    assert read(spoilt) == read(GOOGLE)
    noted = json.loads(json.dumps(PYTEST))
    noted["benchmarks"][0]["extra_info"] = {"loss": float("nan")}
    noted["benchmarks"][1]["stats"]["median"] = float("nan")
    assert read(noted).points == read(PYTEST).points
    assert read(noted).skipped == {"tests/test_a.py::test_b": "its median is nan"}
    marked = b"\xef\xbb\xbf" + json.dumps(PYPERF).encode()
    assert decode_foreign(marked, "x.json") == read(PYPERF)


def test_an_unknown_unit_is_named() -> None:
    odd = {**GOOGLE, "benchmarks": [{"name": "BM_a", "real_time": 1.0, "time_unit": "fortnights"}]}
    with pytest.raises(BadInput, match=r"BM_a, its time is in 'fortnights' \(known: ns, us, ms, s\)"):
        read(odd)


def test_control_characters_in_names_are_replaced() -> None:
    odd = json.loads(json.dumps(PYPERF).replace("json_loads", "json\\u001b[31m\\nloads"))
    (point,) = read(odd).points
    assert point.name == "json\ufffd[31m\ufffdloads"


def test_pytest_benchmark_has_its_commit_and_its_date_in_utc() -> None:
    imported = read(PYTEST)
    (point,) = imported.points
    assert (point.name, point.value, point.commit) == ("tests/test_a.py::test_a[n=3]", 0.25, "def456")
    assert point.created == "2026-01-02T03:04:05.000000+00:00"
    assert list(imported.skipped) == ["tests/test_a.py::test_b"]


def test_google_benchmark_prefers_repetitions_to_aggregates() -> None:
    imported = read(GOOGLE)
    assert {point.name: point.values for point in imported.points} == {
        "BM_a/8": [pytest.approx(1e-4), pytest.approx(3e-4)],
        "BM_b": [pytest.approx(2e-3)],
    }
    assert imported.skipped == {"BM_c": "no device"}


def test_the_clock_does_not_identify_a_machine() -> None:
    faster = {**GOOGLE, "context": {**GOOGLE["context"], "mhz_per_cpu": 3300}}
    assert read(GOOGLE).points[0].place == read(faster).points[0].place


def test_what_tare_exports_for_pyperf_can_be_imported() -> None:
    (point,) = decode_foreign(get_record_format("pyperf")([make_record()]).encode(), "x").points
    assert point.value == pytest.approx(1e-3)
    assert len(point.values) == 3


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, "no known format"),
        ([], "not the JSON"),
        ({"benchmarks": []}, "no known format"),
        ({**PYPERF, "benchmarks": []}, "no benchmark with a figure"),
        ({**PYTEST, "datetime": "yesterday"}, "yesterday"),
        ({**PYTEST, "datetime": None}, "when it was measured"),
        ({**GOOGLE, "benchmarks": {}}, "Expected `array`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(document: Any, named: str) -> None:
    with pytest.raises(BadInput, match=named):
        read(document)


@pytest.mark.parametrize("source", ALL)
def test_damaged_files(source: str) -> None:
    chance = random.Random(source)
    text = json.dumps(ALL[source]).encode()
    odd = odd_values(toml=False)
    refused = 0
    for _ in range(300):
        refused += refuses(decode_foreign, damaged_bytes(chance, text), "x.json")
        # A date beyond the year 9999 or a time of 1e308 must not come out as anything else than a refusal.
        refused += refuses(read, damaged_document(chance, ALL[source], odd))
    assert 0 < refused < 600


def test_the_same_result_is_stored_once(store: Store) -> None:
    points = [*read(PYPERF).points, *read(PYTEST).points, *read(GOOGLE).points]
    assert (add_foreign(store, points), add_foreign(store, points)) == (4, 0)
    assert {p.name for p in find_foreign(store, [])} == {p.name for p in points}
    assert [p.name for p in find_foreign(store, ["BM_a"])] == ["BM_a/8"]
    assert [p.name for p in find_foreign(store, ["*_b"])] == ["BM_b"]
    assert {p.name for p in find_foreign(store, ["BM"])} == {"BM_a/8", "BM_b"}
    assert find_foreign(store, ["bm"]) == find_foreign(store, ["BM.a"]) == []
    assert find_foreign(store, ["json_loads"]) == read(PYPERF).points
    store.close()
