"""The report: what it says in words, the points of its figures, their data and commands, and the page as HTML."""

import csv
import io
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from builders import make_case, make_failure, make_record, make_round
from commandline import tare

from tare.records.record import Net, Parity, Record
from tare.report.formats import get_record_format
from tare.report.ladder import make_ladders
from tare.report.web.answers import answers
from tare.report.web.figures import Family, Figure, command_of, family_figure, make_families
from tare.report.web.report_page import make_report_content, report_html
from tare.workloads import get_workload

# Milliseconds of a step by rung, of a sample.
PACES = {"eager": 4.0, "compile": 2.0, "vendor": 1.0}


class Texts(HTMLParser):
    """The texts that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL))

    def handle_data(self, data: str) -> None:
        self.found += [data.strip()] if data.strip() else []


def grid(**fields: Any) -> list[Record]:
    """Three rungs at three batches and two widths: a step takes as long as its samples."""
    records: list[Record] = []
    for batch in (1, 8, 64):
        for width in (32, 64):
            for rung, pace in PACES.items():
                sizes = {**get_workload("mlp").defaults, "width": width}
                case = make_case(rung=rung, batch=batch, sizes=sizes, **fields)
                middle = pace * 1e-3 * batch * width / 32
                records.append(
                    make_record(case, [middle * noise for noise in (0.99, 1.0, 1.01)], id=f"r{len(records)}")
                )
    return records


def only_family(records: list[Record]) -> Family:
    (family,) = make_families(make_ladders(records))
    return family


def only_figure(records: list[Record]) -> Figure:
    return family_figure(only_family(records), 0)


def rows_of(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(figure.csv)))


def test_what_varies_is_an_axis_and_every_point_is_there() -> None:
    figure = only_figure(grid())
    assert figure.axes == ["batch", "width"]
    assert len(figure.points) == 18
    (point,) = [p for p in figure.points if p.rung == "compile" and p.at == {"batch": 8, "width": 64}]
    assert point.values["time"][0] == pytest.approx(2e-3 * 8 * 2)
    low, high = point.values["time"][1:]
    assert low is not None
    assert high is not None
    assert low < point.values["time"][0] < high
    assert point.values["sample"][0] == pytest.approx(4e-3)
    assert point.values["throughput"][0] == pytest.approx(250)
    assert point.values["speedup"][0] == pytest.approx(2)
    # Nothing has measured what is not in the records.
    assert {"device", "utilisation"}.isdisjoint(measure.name for measure in figure.measures)


def test_its_data_are_csv_with_the_units_in_the_heads() -> None:
    rows = rows_of(only_figure(grid()))
    assert len(rows) == 18
    (row,) = [r for r in rows if (r["rung"], r["batch"], r["width"]) == ("vendor", "64", "32")]
    assert float(row["time (s)"]) == pytest.approx(0.064)
    assert float(row["time (s) low"]) < 0.064 < float(row["time (s) high"])
    assert row["latency (s) low"] == ""


def test_the_answer_comes_in_words() -> None:
    families = make_families(make_ladders(grid()))
    (answer,) = answers(families, [])
    assert "vendor is the fastest at 6 of 6 points, 4 times as fast as eager" in answer
    assert "waits" not in answer


def test_one_ladder_is_answered_with_its_time_and_what_eager_waits_for() -> None:
    net = Net(busy_s=2e-3, method="union of kernels")
    rounds = {"eager": [make_round(0, 8e-3, net=net)] * 3, "vendor": [make_round(0, 2e-3)] * 3}
    records = [make_record(make_case(rung=rung, device="cuda"), id=rung, rounds=rounds[rung]) for rung in rounds]
    (answer,) = answers(make_families(make_ladders(records)), [])
    assert "vendor is the fastest, 2.0 ms a step, 4 times as fast as eager." in answer
    assert "For 75 % of eager's step the device waits" in answer


def test_a_difference_within_the_noise_is_said_to_be_none() -> None:
    steps = {
        "eager": (4e-3, 4.1e-3, 3.9e-3),
        "compile": (2e-3, 2.3e-3, 1.9e-3),
        "vendor": (1.98e-3, 2.2e-3, 1.8e-3),
    }
    records = [make_record(make_case(rung=rung), values, id=rung) for rung, values in steps.items()]
    (answer,) = answers(make_families(make_ladders(records)), [])
    assert "within the noise, so is compile" in answer


def test_a_rung_that_computes_something_else_is_neither_drawn_nor_the_fastest() -> None:
    records = [
        make_record(make_case(rung="eager"), id="a"),
        make_record(
            make_case(rung="compile"),
            [1e-6] * 3,
            id="b",
            parity=Parity(status="different", error=1.0, tolerance=1e-3),
        ),
        make_record(
            make_case(rung="vendor"),
            id="c",
            rounds=[make_round(failure=make_failure(), series=[])],
            failure=make_failure(),
        ),
    ]
    content = make_report_content(records, [])
    (figure,) = content.figures
    assert [point.rung for point in figure.points] == ["eager"]
    assert [line.split()[0] for line in figure.missing] == ["compile", "vendor"]
    assert content.answers == []


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_the_command_measures_the_same_cases_again(mode: str, tmp_path: Path) -> None:
    records = grid(mode=mode, precision="bf16", threads=2)
    words = shlex.split(command_of(only_family(records)))
    assert words[:3] == ["tare", "run", "mlp"]
    done = tare(tmp_path, *words[1:], "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)
    keys = {*planned["cases"], *(skip["key"] for skip in planned["skipped"])}
    assert keys == {record.case.key for record in records}
    assert words[-2:] == ["--rounds", "3"]


def test_texts_of_records_cannot_become_markup_or_script() -> None:
    records = [
        make_record(id="a"),
        make_record(
            make_case(rung="compile"),
            id="b",
            failure=make_failure(message="</script><script>alert(1)</script><b>"),
        ),
    ]
    page = report_html(make_report_content(records, [], title="<i>title</i>"))
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<i>title" not in page
    assert "<b>" not in page


def test_the_page_asks_for_nothing_and_may_ask_for_nothing() -> None:
    page = report_html(make_report_content(grid(), []))
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["'](?!data:)""", markup)
    assert "default-src 'none'" in markup


def test_it_holds_a_table_of_all_cases_and_the_environment() -> None:
    texts = Texts(report_html(make_report_content(grid(), []))).found
    assert texts.count("vendor") >= 6
    assert {"test-cpu", "2.10.0", "tester"} <= set(texts)


def test_a_suite_of_workloads_has_a_bar_for_each() -> None:
    records = [
        make_record(make_case(workload=name, rung=rung), [step] * 3, id=f"{name}{rung}")
        for name in ("mlp", "lstm", "mnist_cnn")
        for rung, step in (("eager", 3e-3), ("compile", 1e-3))
    ]
    suite = make_report_content(records, []).figures[0]
    assert suite.axes == ["workload"]
    assert [point.values["speedup"][0] for point in suite.points] == pytest.approx([3, 3, 3])


def test_a_report_of_a_file(tmp_path: Path) -> None:
    file, page = tmp_path / "records.json", tmp_path / "page.html"
    file.write_text(get_record_format("json")(grid()))
    done = tare(tmp_path, "report", str(file), "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert "vendor is the fastest" in page.read_text()
    document = json.loads(tare(tmp_path, "report", str(file), "--json").stdout)
    assert document["figures"][0]["axes"] == ["batch", "width"]


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    done = tare(tmp_path, "report", "-o", str(tmp_path / "page.html"))
    assert done.returncode == 2
    assert "the store is empty" in done.stderr
    assert not (tmp_path / "page.html").exists()
