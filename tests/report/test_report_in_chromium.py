"""The report in a real Chromium: its charts draw, its choices and its tables work, on a phone as well."""

from pathlib import Path

import pytest
from builders import make_case, make_record
from chromium import CHROMIUM, look_at

from tare.records.record import Record
from tare.report.web.report_page import make_report_content, report_html
from tare.workloads import get_workload

pytestmark = [pytest.mark.full, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]

# What a reader does with every figure: each choice of each list, one after the other.
TRY_EVERYTHING = """
  seen.figures = [];
  for (const figure of document.querySelectorAll("figure")) {
    const chart = figure.querySelector(".chart"), drawn = [];
    for (const select of figure.querySelectorAll("select")) {
      for (const option of [...select.options]) {
        select.value = option.value;
        select.dispatchEvent(new Event("change"));
        await pause();
        drawn.push([option.value, chart.data.length, chart.querySelectorAll(".main-svg").length]);
      }
      select.selectedIndex = 0;
      select.dispatchEvent(new Event("change"));
    }
    seen.figures.push(drawn);
  }
"""
SORT = """
  const table = [...document.querySelectorAll("table")].find(one => one.rows[0].textContent.includes("gross"));
  const column = [...table.rows[0].cells].findIndex(cell => cell.textContent === "gross");
  const cells = () => [...table.rows].slice(1).map(row => row.cells[column].textContent);
  table.rows[0].cells[column].click();
  seen.ascending = cells();
  table.rows[0].cells[column].click();
  seen.descending = cells();
"""
# The page itself in a frame as wide as a phone: a window of Chromium cannot be so narrow.
ON_A_PHONE = """
  const frame = document.createElement("iframe");
  frame.width = 390; frame.height = 800;
  const source = document.documentElement.outerHTML.replace(/<script>\\naddEventListener[^]*?<\\/script>/, "");
  document.body.append(frame);
  await new Promise(resolve => { frame.onload = resolve; frame.srcdoc = "<!doctype html>" + source; });
  for (let tries = 0; tries < 20; tries += 1) await pause();
  const inside = frame.contentDocument;
  seen.width = frame.contentWindow.innerWidth;
  seen.scroll = inside.documentElement.scrollWidth;
  seen.charts = inside.querySelectorAll(".chart .main-svg").length;
"""


@pytest.fixture(scope="module")
def page() -> str:
    sizes = get_workload("mlp").defaults
    records: list[Record] = []
    for batch in (1, 8, 64):
        for width in (32, 64):
            for rung, pace in {"eager": 4.0, "compile": 2.0, "vendor": 1.0}.items():
                middle = pace * 1e-4 * batch * width / 32
                case = make_case(rung=rung, batch=batch, sizes={**sizes, "width": width})
                noisy = [middle * noise for noise in (0.99, 1.0, 1.01)]
                records.append(make_record(case, noisy, id=f"r{len(records)}"))
    for name in ("lstm", "mnist_cnn"):
        records += [
            make_record(make_case(workload=name, rung=rung), id=f"{name}{rung}") for rung in ("eager", "compile")
        ]
    return report_html(make_report_content(records, []))


def test_every_chart_draws_whatever_is_chosen(page: str, tmp_path: Path) -> None:
    seen = look_at(page, TRY_EVERYTHING, tmp_path)
    assert seen["errors"] == []
    assert len(seen["figures"]) == page.count("<figure id=")
    chosen = {name for figure in seen["figures"] for name, *_ in figure}
    assert {
        "curves",
        "map",
        "bars",
        "time of a step (gross)",
        "width",
        "batch",
        "vendor",
        "batch 8, width 64",
    } <= chosen
    assert all(traces and pictures for figure in seen["figures"] for _, traces, pictures in figure)


def test_a_table_is_sorted_by_what_its_figures_mean(page: str, tmp_path: Path) -> None:
    """By time, not by letters: microseconds come before milliseconds."""
    seen = look_at(page, SORT, tmp_path)
    assert seen["errors"] == []
    assert seen["ascending"][0].endswith("µs")
    assert "12" in seen["descending"][0] or "51" in seen["descending"][0]
    assert seen["descending"] != seen["ascending"]


def test_nothing_is_wider_than_a_phone(page: str, tmp_path: Path) -> None:
    seen = look_at(page, ON_A_PHONE, tmp_path)
    assert seen["errors"] == []
    assert seen["width"] == 390
    assert seen["scroll"] <= 390
    assert seen["charts"]
