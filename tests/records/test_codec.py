"""Records to JSON and back: nothing is lost, and what is not a record is refused in one line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders import make_case, make_failure, make_record, make_round, make_series
from msgspec.structs import asdict
from traces import RECORDED

from tare.errors import BadInput
from tare.records.codec import decode_record, decode_round, encode, read_records
from tare.records.record import VERSION, DeviceMemory, HostMemory, Net, Parity, Series, Telemetry

FULL_ROUND = make_round(
    2,
    cache="cold",
    throttled={"pipelined": [0, 3]},
    host_memory=HostMemory(peak=5, prepare_peak=6, start=1, method="VmHWM"),
    device_memory=DeviceMemory(allocated_peak=1, reserved_peak=2**40, nvml=7, nvml_method="process"),
    telemetry=Telemetry(samples=3, sm_clock_mhz=[1.0, 2.0, 3.0], throttle_reasons=["sw_power_cap"], cpu_pace=1.5),
    parity=Parity(status="different", error=0.5, tolerance=1e-3, worst="grad.weight", compared=9, undecided=1),
    flags={"tf32": "on"},
    notes=["näher — ± 3"],
    failure=make_failure(cause="device-oom", detail="line 1\nline 2"),
)


def document(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(encode(make_record()))
    return whole | changes


def refusal(text: bytes | str) -> str:
    with pytest.raises(BadInput) as caught:
        decode_record(text, "record 7")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    "record",
    [
        make_record(),
        make_record(rounds=[FULL_ROUND, make_round()], case=make_case(mode="train", device="cuda:1", threads=3)),
        make_record(rounds=[], failure=make_failure()),
        make_record(rounds=[make_round(series=[make_series("pipelined", 1e-3, device_ns=[1] * 10)])]),
    ],
)
def test_a_record_comes_back_equal(record: Any) -> None:
    assert decode_record(encode(record), "x") == record
    assert decode_record(encode(record).decode(), "x") == record
    assert encode(decode_record(encode(record), "x")) == encode(record)


def test_a_round_comes_back_equal() -> None:
    assert decode_round(encode(FULL_ROUND), "x") == FULL_ROUND


@pytest.mark.parametrize("version", ["2", "1.0", "1.2", "10", "", "one"])
def test_another_version_is_refused_and_both_are_named(version: str) -> None:
    # A future document need not look like ours at all.
    text = json.dumps({"version": version, "shape": "unknown"})
    assert (
        refusal(text)
        == f"record 7 holds a record of version {version}; this tare reads {VERSION}: upgrade tare-bench"
    )


def test_unknown_fields_are_ignored() -> None:
    newer = document(colour="red")
    newer["rounds"][0] |= {"mood": {"good": [1, 2]}}
    newer["rounds"][0]["series"][0] |= {"extra": None}
    newer["environment"] |= {"weather": "rain"}
    read = decode_record(json.dumps(newer), "x")
    assert (read.case, read.rounds, read.environment) == (
        make_record().case,
        make_record().rounds,
        make_record().environment,
    )


def test_a_case_with_a_field_unknown_here_is_refused() -> None:
    """Two cases that differ only in it would have one key, and be taken for the same."""
    newer = document()
    newer["case"]["world_size"] = 8
    assert "world_size" in refusal(json.dumps(newer))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": None}, "$.version"),
        ({"id": 3}, "$.id"),
        ({"rounds": {}}, "$.rounds"),
        ({"rounds": [1]}, "$.rounds[0]"),
        ({"case": {"workload": "mlp"}}, "$.case"),
        ({"parity": {"status": "perhaps"}}, "perhaps"),
        ({"environment": {"machine": {"cores": 2}}}, "$.environment"),
        ({"failure": {"cause": "bored", "message": ""}}, "bored"),
    ],
)
def test_a_wrong_field_is_refused_by_its_place(changes: dict[str, Any], said: str) -> None:
    message = refusal(json.dumps(document(**changes)))
    assert message.startswith("record 7 is not a record: ")
    assert said in message


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"version": "\xff"}', "\ud800", b'{"version": "1"}', b"1" * 9999],
)
def test_what_is_no_record_at_all_is_refused(text: bytes | str) -> None:
    assert "record 7 is not a record: " in refusal(text)


def test_a_document_nested_without_end_is_refused() -> None:
    assert "recursion" in refusal(b'{"version": "1", "zz": ' + b"[" * 100_000)


@pytest.mark.parametrize("name", ["steps", "wall_ns", "at_ns", "device_ns"])
def test_lists_of_unequal_length_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Series(**(asdict(make_series("pipelined", 1e-3)) | {name: [1]}))
    bad = document()
    bad["rounds"][1]["series"][2][name] = [1]
    assert "differ in length" in refusal(json.dumps(bad))


@pytest.mark.parametrize(
    ("name", "value"),
    [("wall_ns", -1), ("wall_ns", 2**63), ("wall_ns", 1.5), ("steps", 0), ("steps", 10**400), ("at_ns", "0")],
)
def test_a_sample_that_no_clock_gives_is_refused(name: str, value: object) -> None:
    bad = document()
    bad["rounds"][0]["series"][0][name][0] = value
    assert f"$.rounds[0].series[0].{name}[0]" in refusal(json.dumps(bad))


@pytest.mark.parametrize("index", [-1, 2**31, 10**30, "0"])
def test_a_round_whose_index_no_store_can_hold_is_refused(index: object) -> None:
    bad = json.loads(encode(make_round())) | {"index": index}
    with pytest.raises(BadInput, match=r"x is not a round: .*\$\.index"):
        decode_round(json.dumps(bad), "x")


def test_what_a_damaged_database_gives_instead_of_a_text_is_refused() -> None:
    for nothing in (None, 5):
        with pytest.raises(BadInput, match="x is not a record"):
            decode_record(nothing, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", ""),
        ("id", "../../elsewhere"),
        ("id", "x" * 65),
        ("id", "newline\n"),
        ("run", "a\nb"),
        ("created", "yesterday"),
        ("created", "2026-11-16T10:00:00\x1b[2J"),
    ],
)
def test_what_files_are_named_by_is_no_path_and_a_moment_is_one(name: str, value: str) -> None:
    assert f"`$.{name}`" in refusal(json.dumps(document() | {name: value}))


def test_no_preparation_takes_less_than_nothing() -> None:
    bad = document()
    bad["rounds"][0]["prepare_s"] = -1.0
    assert "$.rounds[0].prepare_s" in refusal(json.dumps(bad))


def test_a_trace_in_the_place_of_records_is_called_so() -> None:
    path = RECORDED / "inefficient-leak.json.gz"
    with pytest.raises(BadInput) as caught:
        read_records(path)
    assert str(caught.value) == f"{path} is a trace, not a file of records: tare explain {path}"


@pytest.mark.parametrize("packed", [b"\x1f\x8b", gzip.compress(b"[]" * 99, mtime=0)[:-9], b"\x1f\x8b" + b"x" * 99])
def test_a_file_that_was_cut_off_or_damaged_is_called_so(packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "records.json.gz"
    path.write_bytes(packed)
    with pytest.raises(BadInput, match=r"records.json.gz cannot be unpacked|cannot read .*records.json.gz"):
        read_records(path)


def test_a_failure_is_kept_without_the_secrets_in_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_HUB_TOKEN", "correct-horse")
    url = "https://me:hunter2@host/model"
    failure = make_failure(message=f"401 for {url}", detail=f"x\nGET {url}\nsent correct-horse")
    round_ = make_round(failure=failure, notes=[f"loaded from {url}"], flags={"env.HF_TOKEN": "hunter2"})
    text = encode(make_record(rounds=[round_], failure=failure)).decode()
    assert "hunter2" not in text
    assert "correct-horse" not in text
    assert text.count("https://me:***@host/model") == 5
    assert failure.detail.endswith("sent ***")


def test_a_reason_is_kept_without_secrets() -> None:
    """It may quote the exception that a reference or a profiler raised."""
    reason = "profiling failed: GET https://me:hunter2@host/model"
    for document in (Net(reason=reason), Parity(status="unchecked", reason=reason)):
        assert document.reason == "profiling failed: GET https://me:***@host/model"


def test_a_cut_leaves_no_part_of_a_secret() -> None:
    """The end of a password alone would not be recognised as one."""
    detail = "https://me:" + "hunter2" * 50 + "@host/" + "x" * 7_990
    assert "hunter2" not in make_failure(detail=detail).detail
    assert len(make_failure(detail=detail).detail) <= 8_000
    assert len(make_failure(message="x" * 10_000).message) == 500


@pytest.mark.parametrize(
    "changes",
    [
        {
            "environment": {
                **asdict(make_record().environment),
                "flags": {f"env.OMP_{i}": "1" for i in range(10_001)},
            }
        },
        {"environment": {**asdict(make_record().environment), "flags": {"env.OMP_X": "@:/a:" * 3_000}}},
        {"rounds": [{**json.loads(encode(make_round())), "notes": ["x"] * 1_001}]},
        {"rounds": [{**json.loads(encode(make_round())), "notes": ["@:/a:" * 3_000]}]},
    ],
)
def test_a_record_of_boundless_texts_is_refused(changes: dict[str, Any]) -> None:
    assert "of length <= " in refusal(json.dumps(document(**changes)))


def test_a_round_with_boundless_texts_is_cut_so_that_it_can_be_read_again() -> None:
    """A worker may send anything."""
    round_ = make_round(notes=["x" * 20_000] * 20 + ["y"] * 1_980, flags={"tf32": "y" * 20_000})
    again = decode_round(encode(round_), "x")
    assert again == round_
    assert (len(again.notes), len(again.notes[0]), len(again.flags["tf32"])) == (1_000, 10_000, 10_000)
