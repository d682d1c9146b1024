"""Findings, tables and memory on a terminal: what must be read is there, within 100 columns."""

import re
from math import prod
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from traces import RECORDED

from tare.errors import BadInput
from tare.findings import Finding, Location
from tare.findings.diagnosis import diagnose, with_lines
from tare.report.findings import (
    check_column,
    diagnosis_view,
    findings_view,
    saving_text,
    sorted_by,
    top_kernels_view,
)
from tare.report.numbers import several
from tare.report.plot import sparkline
from tare.report.terminal import plain_text
from tare.trace.names import short_name
from tare.trace.read import read


def shown(path: Path, sort: str | None = None, rows: int = 6) -> str:
    trace = read(path)
    console = Console(width=100, highlight=False)
    with console.capture() as capture:
        console.print(
            diagnosis_view(diagnose(trace, trace.metadata["tare_recorded"]["gross_ns"] / 1e9), rows, sort)
        )
    return capture.get()


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_every_recorded_trace_fits(path: Path) -> None:
    text = shown(path)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "operators, a step" in text
    # Replaying a graph allocates nothing.
    assert ("at the peak: " in text) == (len(read(path).memory) > 0)


def test_a_finding_is_shown_with_its_location_and_remedy() -> None:
    text = shown(next(path for path in RECORDED.glob("*.json.gz") if "scalar-copies" in path.name))
    assert "scalar-copies: single numbers are copied to the device: 20 a step" in text
    assert "→ Keep the number in Python" in text
    assert "scalars (20 a step)" in text


def test_the_top_kernels_are_shown_by_default() -> None:
    diagnosis = diagnose(read(RECORDED / "resnet50-infer-b1-eager.json.gz"))
    text = plain_text(top_kernels_view(diagnosis))
    assert short_name(diagnosis.kernels[0].name) in text
    assert f"{diagnosis.kernels[0].share:.1%}" in text
    assert f"and {len(diagnosis.kernels) - 5} kernels more" in text
    assert max(len(line) for line in text.splitlines()) <= 100


def first_column(text: str, head: str) -> list[str]:
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(head))
    return [line.split()[0] for line in lines[start + 1 : start + 4]]


def test_the_tables_sort_by_any_column() -> None:
    path = next(path for path in RECORDED.glob("*.json.gz") if "mlp-train-eager" in path.name)
    by_device, by_calls = shown(path), shown(path, "calls")
    assert first_column(by_device, "operator ")[0] == "aten::addmm"
    assert first_column(by_calls, "operator ")[0] == "aten::as_strided"
    with pytest.raises(BadInput, match=r"unknown column 'call'.*did you mean 'calls'"):
        shown(path, "call")


@pytest.mark.parametrize("head", ["operator ", "kernel "])
def test_every_printed_column_can_be_sorted_by(head: str) -> None:
    path = next(path for path in RECORDED.glob("*.json.gz") if "resnet50-train" in path.name)
    heads = next(line for line in shown(path).splitlines() if line.startswith(head))
    # Columns of two words are closer to each other than to the next one: told apart by the words that begin
    # them.
    for column in re.findall(r"(?:host|device) \w+|\w+", heads):
        check_column(column)
        shown(path, column)


def test_grids_and_blocks_sort_by_their_number() -> None:
    path = next(path for path in RECORDED.glob("*.json.gz") if "resnet50-train" in path.name)
    found = diagnose(read(path)).kernels
    for column, field in (("block", "block"), ("grid", "grid")):
        sizes = [prod(getattr(one, field) or (0,)) for one in sorted_by(found, column)]
        assert sizes == sorted(sizes, reverse=True)
    assert sorted_by(found, "tensor")[0].tensor_cores is True
    names = [one.name for one in sorted_by(found, "kernel")]
    assert names == sorted(names)
    assert sorted_by(found, "host self") == found


def test_a_saving_shows_whether_it_is_a_bound() -> None:
    fields: dict[str, Any] = {"rule": "r", "severity": "low", "summary": "s", "remedy": "m."}
    assert saving_text(Finding(**fields, saving_s=2.5e-3, saving_share=0.25)) == "2.5 ms 25%"
    assert saving_text(Finding(**fields, saving_s=2.5e-3, saving_share=0.25, bound="at most")) == "≤ 2.5 ms 25%"
    assert saving_text(Finding(**fields, saving_s=2.5e-3, saving_share=0.25, bound="at least")) == "≥ 2.5 ms 25%"
    assert saving_text(Finding(**fields)) == "unknown"


def test_without_findings_it_says_so() -> None:
    path = next(path for path in RECORDED.glob("*.json.gz") if "b1-cudagraph" in path.name)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(findings_view(diagnose(read(path))))
    assert capture.get().strip() == "no findings"


def test_lines_come_from_the_recording_with_stacks() -> None:
    fields: dict[str, Any] = {"rule": "r", "severity": "low", "summary": "s", "remedy": "m."}
    plain = Finding(**fields, locations=[Location(where="aten::item", count=1, seconds=0)], saving_s=1.0)
    fields["remedy"] = "m at train.py."
    named = Finding(**fields, locations=[Location(where="train.py(3): step", count=1, seconds=0)], saving_s=2.0)
    joined = with_lines([plain], [named])
    assert [location.where for location in joined[0].locations] == ["train.py(3): step"]
    assert (joined[0].saving_s, joined[0].remedy) == (1.0, "m at train.py.")
    assert with_lines([plain], []) == [plain]


def test_the_line_of_memory_keeps_the_peak() -> None:
    assert sparkline([10**9, 10**9 + 50, 10**9 + 100]) == "▁▅█"
    assert max(sparkline([1] * 500 + [100] + [1] * 500, 66, max)) == "█"


def test_numbers_of_things() -> None:
    assert [several(n, "copy", "copies") for n in (0, 0.5, 1, 2, 280.4)] == [
        "0 copies", "0.5 copies", "1 copy", "2 copies", "280 copies",
    ]  # fmt: skip
    assert several(1.0, "kernel") == "1 kernel"
