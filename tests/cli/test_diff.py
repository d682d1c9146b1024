"""tare diff from the command line."""

import json
from pathlib import Path

import msgspec
import pytest
from builders import make_case, make_failure, make_record
from commandline import tare
from traces import RECORDED, TraceBuilder

from tare.records.record import Parity, Record

EAGER, GRAPH = (str(RECORDED / f"resnet50-infer-b1-{rung}.json.gz") for rung in ("eager", "cudagraph"))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two exported files with a record each: the second is twice as slow and of another rung."""
    slow = make_record(make_case(rung="torchscript"), steps_s=(2e-3, 2.02e-3, 1.98e-3), id="record000002")
    paths = tmp_path / "a.json", tmp_path / "b.json"
    for path, record in zip(paths, (make_record(), slow), strict=True):
        path.write_bytes(msgspec.json.encode([record]))
    return str(paths[0]), str(paths[1])


def test_two_traces(tmp_path: Path) -> None:
    done = tare(tmp_path, "diff", EAGER, GRAPH, "--rows", "3")
    assert done.returncode == 0, done.stderr
    # The step is what explain says it is.
    assert next(line for line in done.stdout.splitlines() if line.startswith("gross")).split() == [
        "gross", "5.6", "ms", "884", "µs",
    ]  # fmt: skip
    assert "shares of gross" in done.stdout
    assert "kernels: no change" in done.stdout
    assert done.stdout.count("vanished") == 3
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    document = json.loads(tare(tmp_path, "diff", EAGER, GRAPH, "--json").stdout)
    assert document["records"] is None
    assert document["trace"]["kernels"] == []


def test_different_devices_are_noted(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::mul", 10, 90)
    host = builder.write(tmp_path / "host.json")
    builder.launch(20, 25, 30, 60)
    device = builder.write(tmp_path / "device.json")
    done = tare(tmp_path, "diff", str(host), str(device))
    assert "not the same device: A ran on the host alone, B on Test GPU" in done.stdout
    assert (
        "not the same device: A ran on Test GPU, B on NVIDIA H200"
        in tare(tmp_path, "diff", str(device), EAGER).stdout
    )
    assert "same device" not in tare(tmp_path, "diff", EAGER, GRAPH).stdout


def test_two_records(tmp_path: Path, files: tuple[str, str]) -> None:
    done = tare(tmp_path, "diff", *files)
    assert done.returncode == 0, done.stderr
    assert "rung: eager against torchscript" in done.stdout
    assert "a clear difference" in done.stdout
    assert "no trace is kept" in done.stdout
    document = json.loads(tare(tmp_path, "diff", *files, "--json").stdout)
    gross = next(figure for figure in document["records"]["figures"] if figure["name"] == "gross")
    assert gross["ratio"] == pytest.approx(2, rel=0.01)
    assert gross["clear"]
    assert document["trace"] is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            make_record(steps_s=(), id="bad", failure=make_failure(message="no luck")),
            "bad failed: exception: no luck",
        ),
        (make_record(id="bad", parity=Parity(status="different")), "bad computes something else (different)"),
    ],
    ids=["failed", "different"],
)
def test_a_record_that_is_not_comparable_has_a_note(tmp_path: Path, other: Record, said: str) -> None:
    good, bad = tmp_path / "a.json", tmp_path / "b.json"
    good.write_bytes(msgspec.json.encode([make_record()]))
    bad.write_bytes(msgspec.json.encode([other]))
    done = tare(tmp_path, "diff", str(good), str(bad))
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    # A failed case has no trace, and explaining it would give none.
    assert done.stdout.count("no trace is kept") == (1 if other.failure else 2)


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        ((EAGER, "FILE"), "a trace and a record cannot be compared"),
        ((EAGER, "no/such/file.json"), "cannot read no/such/file.json"),
        (("workload=mlp", "FILE"), "no record matches workload=mlp"),
    ],
)
def test_terms_that_cannot_be_compared_are_refused_in_one_line(
    tmp_path: Path, files: tuple[str, str], terms: tuple[str, str], complaint: str
) -> None:
    done = tare(tmp_path, "diff", *(files[0] if term == "FILE" else term for term in terms))
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
