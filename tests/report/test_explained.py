"""Explanations as text and pictures: nothing lost, nothing over the edge, nothing executed."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tare.explain import explain_files, is_trace
from tare.report.charts import breakdown_svg, ladder_svg, waterfall_svg
from tare.report.explain import bar, explanation_view, percent, shorten
from tare.report.explained import render
from tare.report.pictures import pictures, write_html, write_svg
from tare.trace.group import Bar
from tare.trace.waterfall import Segment, Waterfall

RECORDED = Path(__file__).parents[1] / "trace" / "recorded"
SVG = "{http://www.w3.org/2000/svg}"
FALL = Waterfall(
    title="a <b> & c",
    gross=1000,
    segments=[Segment(name="kernels", ns=250), Segment(name="python", ns=700), Segment(name="tail", ns=50)],
    notes=[],
)


def test_bars_meet_and_reach_the_end() -> None:
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
    other = Waterfall(title="x", gross=500, segments=[Segment(name="kernels", ns=500)], notes=[])
    root = ElementTree.fromstring(ladder_svg([FALL, other], ["eager", "compile:reduce-overhead"], "both"))
    heights = [float(box.get("height", 0)) for box in root.iter(f"{SVG}rect")][1:5]
    assert heights == pytest.approx([90, 252, 18, 180], abs=0.2)


def test_long_names_stay_in_the_picture() -> None:
    shares = {"active": 0.5, "movement": 0.1, "idle": 0.4}
    names = ("short", "a_workload_with_a_name_of_just_45_characters__", "x" * 200)
    for name in names:
        one = Bar(workload=name, rung="eager", mode="infer", domain="", **shares)
        root = ElementTree.fromstring(breakdown_svg([one], "one"))
        labels = [text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
        assert all(float(label.get("x", 0)) - 7 * len(label.text or "") >= 0 for label in labels)


def test_only_shares_where_gross_is_unknown() -> None:
    profiled = Waterfall(title="x", gross=1000, profiled=True, segments=FALL.segments, notes=[])
    text = waterfall_svg(profiled)
    assert "70.0 %" in text
    assert not re.search(r">[0-9.]+ (ns|µs|ms|s)\b", text)


@pytest.mark.parametrize("name", ["resnet50-infer-b1-eager-stack", "habit-pageable-copy", "lstm-train-eager"])
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
    render(explained)
    assert "resnet50-infer-b1-cudagraph" in capsys.readouterr().out
    assert len(pictures(explained)) == 4
    write_html(explained, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4
    assert "<script" not in page
    write_svg(explained, tmp_path / "one.svg")
    ElementTree.parse(tmp_path / "one.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html", "one.svg"] or len(
        list(tmp_path.iterdir())
    ) == 2


def test_small_texts() -> None:
    assert [percent(share) for share in (0.0, 0.0001, 0.123, 0.99999)] == ["0.0 %", "<0.1 %", "12.3 %", "100 %"]
    assert shorten("abcdef", 4) == "…def"
    assert [is_trace(name) for name in ("a.json", "b.json.gz", "resnet50")] == [True, True, False]
