"""Explanations as text, pictures and HTML: complete, within the width, and escaped."""

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from markupsafe import escape
from rich.console import Console
from traces import RECORDED

from tare.commands.explain import explain_files
from tare.measure.peak_store import save_peaks
from tare.records.environment import Environment
from tare.records.work import Peak, Peaks
from tare.report.charts import breakdown_svg, ladder_svg, waterfall_svg
from tare.report.explain import ExplainReport, bar, explanation_view, print_report, write_html, write_svg
from tare.report.numbers import percent
from tare.system.text import ending
from tare.trace.group import WorkloadShares
from tare.trace.names import short_name
from tare.trace.waterfall import Waterfall, WaterfallDifference, WaterfallSegment, waterfall_difference

SVG = "{http://www.w3.org/2000/svg}"
FALL = Waterfall(
    title="a <b> & c",
    gross=1000,
    segments=[
        WaterfallSegment(name="kernels", ns=250),
        WaterfallSegment(name="python", ns=700),
        WaterfallSegment(name="tail", ns=50),
    ],
    notes=[],
)


def test_bars_touch_and_reach_the_end() -> None:
    assert bar(0, 250, 1000, "", 40).plain == "█" * 10
    assert bar(250, 750, 1000, "", 40).plain == " " * 10 + "█" * 30
    assert bar(0, 1, 1000, "", 40).plain == "▏"
    assert len(bar(999, 1, 1000, "", 40).plain) <= 40


def test_the_picture_holds_every_segment_to_scale() -> None:
    root = ElementTree.fromstring(waterfall_svg(FALL))
    widths = [float(box.get("width", 0)) for box in root.iter(f"{SVG}rect")][1:]
    assert widths[:3] == pytest.approx([widths[3] / 4, widths[3] * 0.7, widths[3] / 20], abs=0.2)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "a <b> & c" in texts
    assert {"kernels", "python", "tail", "gross"} <= set(texts)


def test_a_ladder_stands_on_one_scale() -> None:
    other = Waterfall(title="x", gross=500, segments=[WaterfallSegment(name="kernels", ns=500)], notes=[])
    root = ElementTree.fromstring(ladder_svg([FALL, other], ["eager", "compile:reduce-overhead"], "both"))
    widths = [float(box.get("width", 0)) for box in root.iter(f"{SVG}rect")][1:5]
    gross = sum(widths[:3])
    assert widths == pytest.approx([gross / 4, gross * 0.7, gross / 20, gross / 2], abs=0.2)


def test_long_names_stay_in_the_picture() -> None:
    shares = {"active": 0.5, "movement": 0.1, "idle": 0.4}
    names = ("short", "a_workload_with_a_name_of_just_45_characters__", "x" * 200)
    for name in names:
        one = WorkloadShares(workload=name, rung="eager", mode="infer", domain="", **shares)
        root = ElementTree.fromstring(breakdown_svg([one], "one"))
        labels = [text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
        assert all(float(label.get("x", 0)) - 7 * len(label.text or "") >= 0 for label in labels)


def test_only_shares_where_gross_is_unknown() -> None:
    profiled = Waterfall(title="x", gross=1000, profiled=True, segments=FALL.segments, notes=[])
    text = waterfall_svg(profiled)
    assert "70.0 %" in text
    assert not re.search(r">[0-9.]+ (ns|µs|ms|s)\b", text)


@pytest.mark.parametrize(
    "name", ["resnet50-infer-b1-eager-stack", "inefficient-pageable-copy", "lstm-train-eager"]
)
def test_the_text_fits(name: str) -> None:
    explained = explain_files([str(RECORDED / f"{name}.json.gz")])
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(explanation_view(explained.explanations[0]))
    lines = console.export_text().splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert any(line.startswith("gross") for line in lines)


def test_a_page_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("resnet50-infer-b1-eager", "resnet50-infer-b1-cudagraph")
    explained = explain_files([str(RECORDED / f"{name}.json.gz") for name in names])
    print_report(explained)
    assert "resnet50-infer-b1-cudagraph" in capsys.readouterr().out
    write_html(explained, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    # The scripts that draw the timelines come last.
    assert page.partition("<script")[0].count("<svg") == 4
    assert page.count('class="chart"') == 2
    # The page has what the terminal shows.
    for diagnosis in explained.diagnoses:
        for finding in diagnosis.findings:
            assert escape(finding.summary) in page
            assert escape(finding.remedy) in page
        assert diagnosis.operators[0].name in page
        assert short_name(diagnosis.kernels[0].name) in page
    assert page.count("why idle") == 2
    write_svg(explained, tmp_path / "one.svg")
    ElementTree.parse(tmp_path / "one.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.svg", "page.html"]


def test_a_page_shows_what_another_rung_removed_and_escapes_every_text(tmp_path: Path) -> None:
    explained = as_workloads("mlp/eager/infer", "mlp/compile/infer")
    parts = waterfall_difference(*(one.waterfall for one in explained.explanations))
    explained.against = [WaterfallDifference(first="eager", other="<script>alert(1)</script>", parts=parts)]
    finding = explained.diagnoses[0].findings[0]
    hostile = msgspec.structs.replace(finding, summary="<img src=x onerror=alert(1)>")
    explained.diagnoses = [msgspec.structs.replace(one, findings=[hostile]) for one in explained.diagnoses]
    write_html(explained, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    assert "<img" not in page.partition("<script")[0]
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "what the second removed" in page


def as_workloads(*names: str) -> ExplainReport:
    """A report in which one recorded trace stands for each of these cases."""
    found = explain_files([str(RECORDED / "inefficient-leak.json.gz")])
    one, diagnosis = found.explanations[0], found.diagnoses[0]
    cases = [f"{name}/cuda/fp32/batch=1/feed=device" for name in names]
    made = [
        msgspec.structs.replace(one, case=case, workload=case.split("/")[0], rung=case.split("/")[1], mode="infer")
        for case in cases
    ]
    return ExplainReport(explanations=made, diagnoses=[diagnosis] * len(made))


def test_every_workload_has_its_picture(tmp_path: Path) -> None:
    """Two rungs of one workload are one ladder; two workloads are two pictures, and their bars a third."""
    explained = as_workloads("mlp/eager/infer", "dqn/eager/infer")
    names = ["f-mlp.svg", "f-dqn.svg", "f-breakdown.svg"]
    assert [path.name for path in write_svg(explained, tmp_path / "f.svg")] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    ladder = as_workloads("mlp/eager/infer", "mlp/compile/infer")
    assert [path.name for path in write_svg(ladder, tmp_path / "g.svg")] == ["g.svg"]
    modes = as_workloads("mlp/eager/infer", "mlp/compile/infer", "mlp/eager/train")
    assert [path.name for path in write_svg(modes, tmp_path / "h.svg")] == ["h-infer.svg", "h-train.svg"]
    assert write_svg(ExplainReport(explanations=[], diagnoses=[]), tmp_path / "i.svg") == []


def test_a_rung_that_differs_is_shown_as_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explained = as_workloads("mlp/eager/infer", "mlp/compile/infer")
    explained.explanations[1] = msgspec.structs.replace(explained.explanations[1], differs="different")
    print_report(explained)
    shown = capsys.readouterr().out
    assert re.search(r"^segment +eager +compile \(different\)", shown, re.MULTILINE)
    write_html(explained, tmp_path / "page.html")
    assert "compile (different)" in (tmp_path / "page.html").read_text().partition("</svg>")[0]


def test_bars_of_several_rungs_name_them() -> None:
    both = as_workloads("mlp/eager/infer", "mlp/compile/infer", "dqn/eager/infer")
    assert both.breakdowns is not None
    svg = breakdown_svg(both.breakdowns.bars, "")
    assert all(f">{label}<" in svg for label in ("mlp on eager", "mlp on compile", "dqn on eager"))


def test_no_rung_is_lost_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"r{i}" for i in range(14)]
    explained = as_workloads(*(f"mlp/{name}/infer" for name in names))
    print_report(explained)
    heads = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("segment ")]
    assert [len(head) for head in heads] == [6, 6, 2]
    assert [name for head in heads for name in head] == names


def test_without_a_device_operators_compute() -> None:
    assert "the device computes for 250 ns of it" in waterfall_svg(FALL)
    on_host = waterfall_svg(FALL, on_host=True)
    assert "operators compute for 250 ns of it" in on_host
    assert "device" not in on_host


H200 = Peaks(
    device="cuda",
    created="2026-11-15T00:00:00+00:00",
    environment=Environment(
        machine={"gpu": "NVIDIA H200"}, software={}, flags={}, circumstances={"host": "somewhere"}
    ),
    peaks=[Peak(name="matrix:bf16", value=700e12, unit="FLOP/s", rounds=[700e12])],
)


@pytest.mark.parametrize("gpu", ["NVIDIA H200", "NVIDIA L4", None])
def test_savings_use_the_peaks_of_the_gpu_of_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str | None
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    if gpu:
        where = msgspec.structs.replace(H200.environment, machine={"gpu": gpu})
        save_peaks(msgspec.structs.replace(H200, environment=where))
    explained = explain_files([str(RECORDED / "inefficient-odd-shapes.json.gz")])
    (odd,) = explained.diagnoses[0].findings
    notes = [note for note in explained.explanations[0].notes if "peaks" in note]
    if gpu == "NVIDIA H200":
        assert odd.saving_s == pytest.approx(0.82e-3, rel=0.1)
        assert notes == [
            "savings by the peaks of the NVIDIA H200 of somewhere, measured on 2026-11-15 (tare peaks)"
        ]
        assert len(explained.peaks) == 1
    else:
        assert (odd.saving_s, notes, explained.peaks) == (None, [], [])


def test_short_texts() -> None:
    assert [percent(share) for share in (0.0, 0.0001, 0.123, 0.99999)] == ["0.0 %", "<0.1 %", "12.3 %", "100 %"]
    assert ending("abcdef", 4) == "…def"
