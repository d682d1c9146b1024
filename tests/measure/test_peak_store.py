"""Peaks are kept for a machine and read back; what is not peaks is refused in one line."""

from pathlib import Path

import msgspec
import pytest
from builders import ENVIRONMENT, STARTED

from tare.errors import BadInput
from tare.measure.peak_store import load_peaks, peaks_of_gpu, save_peaks
from tare.measure.peaks import benchmarks
from tare.records.work import Peak, Peaks

PEAKS = Peaks(
    device="cuda:1",
    created=STARTED,
    environment=ENVIRONMENT,
    peaks=[Peak(name="bandwidth", value=2.0, unit="B/s", rounds=[1.0, 2.0])],
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    return tmp_path


def test_there_and_back() -> None:
    assert load_peaks("cuda:1", ENVIRONMENT) is None
    path = save_peaks(PEAKS)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert load_peaks("cuda:1", ENVIRONMENT) == PEAKS
    assert load_peaks("cpu", ENVIRONMENT) is None


def test_another_machine_has_other_peaks() -> None:
    save_peaks(PEAKS)
    other = msgspec.structs.replace(ENVIRONMENT, machine={"cpu": "another"})
    assert load_peaks("cuda:1", other) is None
    software = msgspec.structs.replace(ENVIRONMENT, software={"torch": "9"})
    assert load_peaks("cuda:1", software) == PEAKS


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"version": "2.0"}', b"\xff\xfe"])
def test_what_is_not_peaks_is_one_line(text: bytes) -> None:
    path = save_peaks(PEAKS)
    path.write_bytes(text)
    with pytest.raises(BadInput, match="tare peaks"):
        load_peaks("cuda:1", ENVIRONMENT)


def test_a_gpu_has_all_the_ceilings_of_the_issue() -> None:
    names = {one.name for one in benchmarks("cuda")}
    assert {"matrix:fp32", "matrix:tf32", "matrix:bf16", "matrix:fp16", "bandwidth", "launch", "dispatch"} <= names
    assert sum(name.startswith("copy:") for name in names) == 4
    assert "launch" not in {one.name for one in benchmarks("cpu")}


def test_peaks_are_found_by_the_name_of_the_gpu() -> None:
    """On whatever machine they were measured, the latest; those of a CPU are nobody's."""
    assert peaks_of_gpu("NVIDIA H200") is None
    for device, gpu, cores, created in (
        ("cuda", "NVIDIA H200", "8", "2026-01-01T00:00:00+00:00"),
        ("cuda:1", "NVIDIA H200", "16", "2026-03-01T00:00:00+00:00"),
        ("cuda", "NVIDIA A100", "8", "2026-04-01T00:00:00+00:00"),
        ("cpu", "NVIDIA H200", "8", "2026-05-01T00:00:00+00:00"),
    ):
        where = msgspec.structs.replace(ENVIRONMENT, machine={"gpu": gpu, "cores": cores})
        save_peaks(msgspec.structs.replace(PEAKS, device=device, created=created, environment=where))
    found = peaks_of_gpu("NVIDIA H200")
    assert found is not None
    assert (found.device, found.environment.machine["cores"]) == ("cuda:1", "16")
    assert peaks_of_gpu("NVIDIA L4") is None


def test_a_trace_needs_no_folder_of_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "file" / "home"))
    assert peaks_of_gpu("NVIDIA H200") is None


def test_peaks_of_other_settings_carry_a_caveat() -> None:
    two = msgspec.structs.replace(PEAKS, device="cpu", threads=2)
    save_peaks(two)
    assert load_peaks("cpu", ENVIRONMENT, threads=2) == two
    other_count = load_peaks("cpu", ENVIRONMENT, threads=1)
    assert other_count is not None
    assert other_count.caveats == ["the peaks were measured with another number of threads (2, not 1)"]
    variables = msgspec.structs.replace(ENVIRONMENT, flags={"env.OMP_NUM_THREADS": "1"})
    other_variables = load_peaks("cpu", variables, threads=2)
    assert other_variables is not None
    assert other_variables.caveats == ["the peaks were measured under other environment variables"]
