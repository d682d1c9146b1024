"""The pages that tare writes in a real Chromium: charts draw, choices and tables work, on a phone as well."""

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, WatchedPage, browser, window
from builders import make_case, make_record
from commandline import tare
from trainings import SEEDS, make_training

from tare.guard.history import HistoryPoint, make_history
from tare.records.record import Record
from tare.report.history import chart_html
from tare.report.training import training_page
from tare.report.web.report_page import make_report_content, report_html
from tare.workloads import get_workload

pytestmark = [pytest.mark.full, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]

TRACE = Path(__file__).parents[1] / "trace" / "recorded" / "resnet50-infer-b1-eager-stack.json.gz"
SCALES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def report_page(folder: Path) -> Path:
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
    page = folder / "report.html"
    page.write_text(report_html(make_report_content(records, [])))
    return page


def explanation_page(folder: Path) -> Path:
    page = folder / "explain.html"
    done = tare(folder, "explain", str(TRACE), "--html", str(page))
    assert done.returncode == 0, done.stderr
    return page


def history_page(folder: Path) -> Path:
    drawn = random.Random(3)
    points = [
        HistoryPoint(
            created=f"2026-01-01T00:{day:02d}:00",
            value=drawn.gauss(1.0 if day < 20 else 1.3, 0.01),
            label=f"commit {day}",
            id=str(day),
        )
        for day in range(40)
    ]
    history = make_history(points, name="net", source="pyperf", metric="time", unit="s", place="here")
    page = folder / "history.html"
    page.write_text(chart_html([history]))
    return page


def training_html(folder: Path) -> Path:
    page = folder / "training.html"
    page.write_text(training_page(make_training({"eager": SEEDS, "libtorch": SEEDS, "vendor": SEEDS})))
    return page


PAGES = {
    "report": report_page,
    "explanation": explanation_page,
    "history": history_page,
    "training": training_html,
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: make(folder) for name, make in PAGES.items()}


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as opened:
        yield opened


def figures(watched: WatchedPage) -> list[Any]:
    every: list[Any] = watched.page.locator("figure[id]").all()
    return every


def choose_everything(figure: Any) -> Iterator[str]:
    """Each choice of each list, as a reader tries them: the choice of one shows or hides others."""
    selects = figure.locator("select").all()
    for select in selects:
        for name in options(select):
            select.select_option(name)
            yield name
            for other in selects:
                for further in options(other) if other is not select else []:
                    other.select_option(further)
                    yield further


def options(select: Any) -> list[str]:
    """None where the list is hidden."""
    read = "options => options.map(option => option.value)"
    names: list[str] = select.locator("option").evaluate_all(read) if select.is_visible() else []
    return names


def test_every_chart_draws_whatever_is_chosen(pages: dict[str, Path], opened: Any) -> None:
    chosen = set[str]()
    with window(opened) as watched:
        for page in (pages["report"], pages["training"]):
            watched.page.goto(page.as_uri())
            for figure in figures(watched):
                for name in choose_everything(figure):
                    chosen.add(name)
                    assert figure.locator(".chart svg.main-svg").count(), name
        assert watched.errors == []
    expected = {"curves", "map", "bars", "time of a step (gross)", "width", "batch", "vendor", "batch 8, width 64"}
    expected |= {"test accuracy", "training accuracy", "test loss", "training loss"}
    assert expected <= chosen


def test_a_table_is_sorted_by_what_its_figures_mean(pages: dict[str, Path], opened: Any) -> None:
    """By time, not by letters: microseconds come before milliseconds."""
    with window(opened) as watched:
        watched.page.goto(pages["report"].as_uri())
        table = watched.page.locator("table", has=watched.page.locator("th", has_text="gross")).first
        names = table.locator("th").all_inner_texts()
        column = names.index("gross") + 1

        def seconds() -> list[float]:
            texts = table.locator(f"td:nth-child({column})").all_inner_texts()
            return [float(text.split()[0].strip("±")) * SCALES[text.split()[-1]] for text in texts]

        head = table.locator("th").nth(column - 1)
        head.click()
        ascending = seconds()
        head.click()
        assert watched.errors == []
        assert len(set(ascending)) > 3
        assert all(math.isclose(a, b) or a < b for a, b in itertools.pairwise(ascending))
        assert seconds() == ascending[::-1]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_page_fits_and_fetches_nothing(
    pages: dict[str, Path], opened: Any, name: str, width: int, dark: bool
) -> None:
    with window(opened, width, dark) as watched:
        watched.page.goto(pages[name].as_uri())
        drawn = [figure.locator(".chart svg.main-svg").count() for figure in figures(watched)]
        assert drawn
        assert all(drawn)
        assert watched.overflow <= 0
        assert watched.errors == []
        assert [each for each in watched.requests if not each.startswith(("file:", "data:", "blob:"))] == []


def test_the_tree_of_modules_can_be_read_on_a_phone(pages: dict[str, Path], opened: Any) -> None:
    """A name of one word stays on one line; the columns beside it are reached by scrolling within the tree."""
    with window(opened, 390) as watched:
        watched.page.goto(pages["explanation"].as_uri())
        heights = watched.page.locator(".tree-name:visible", has_text="Conv2d").evaluate_all(
            "names => names.map(name => name.getBoundingClientRect().height)"
        )
        assert heights
        assert max(heights) < 40
