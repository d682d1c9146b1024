"""The site in a real browser: every page draws, at any width, in both themes, without an error."""

from collections.abc import Iterator
from typing import Any

import pytest
from browser import CHROMIUM, browser, window
from sites import explained_record, filled_store, served, token_of

from tare.store.database import Store
from tare.store.explanations import keep_explanation

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled_store(tmp_path_factory.mktemp("browsed") / "filled.db") as store:
        keep_explanation(store, "s00000n00029", explained_record("net0000 on eager").encode())
        yield store


@pytest.fixture(scope="module")
def address(store: Store) -> Iterator[str]:
    with served(store) as address:
        yield address


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as opened:
        yield opened


def paths(address: str) -> dict[str, str]:
    import json
    from urllib.request import urlopen

    def table(path: str, name: str) -> list[dict[str, Any]]:
        with urlopen(f"{address}/{path}data.json?days=999") as answer:
            rows: list[dict[str, Any]] = json.loads(answer.read())["tables"][name]
        return rows

    regression = table("regressions/", "regressions")[0]
    machines = [row["id"] for row in table("machines/", "machines")]
    return {
        "front": "",
        "regressions": "regressions/?days=999",
        "regression": regression["path"],
        "workloads": "workloads/",
        "workload": "workloads/net0000/",
        "ladder": table("workloads/net0000/", "ladders")[0]["path"],
        "series": regression["series_path"],
        "record": f"records/{regression['after_record']}/",
        "explained": "records/s00000n00029/",
        "grid": "grid/",
        "runs": "runs/",
        "run": table("runs/", "runs")[0]["path"],
        "machines": "machines/",
        "machine": f"machines/{machines[0]}/",
        "compare": f"compare/?a=machine:{machines[0]}&b=machine:{machines[1]}",
        "coverage": "coverage/",
        "search": "search/?q=net",
        "login": "login/",
    }


CHARTS = {"ladder": 1, "series": 1, "record": 2, "explained": 2, "compare": 1}


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_every_page_draws_at_any_width_and_in_both_themes(
    opened: Any, address: str, width: int, dark: bool
) -> None:
    with window(opened, width, dark) as watched:
        for name, path in paths(address).items():
            watched.page.goto(f"{address}/{path}")
            assert watched.page.locator("h1").inner_text(), name
            drawn = watched.page.locator("figure .chart svg.main-svg").count()
            assert (drawn > 0) == (name in CHARTS), name
            assert watched.overflow <= 0, name
            background = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(22, 24, 29)") == dark
        assert watched.errors == []
        assert all(request.startswith((address, "data:", "blob:")) for request in watched.requests)


def test_filters_are_in_the_address_and_tables_sort(opened: Any, address: str) -> None:
    with window(opened) as watched:
        page = watched.page
        page.goto(f"{address}/grid/")
        page.select_option("select[name=mode]", "train")
        page.wait_for_url("**mode=train**")
        assert "q=" not in page.url
        assert page.locator("tbody tr").count() == 3
        page.locator("th", has_text="eager").click()
        figures = page.locator("td:nth-child(3)").evaluate_all(
            "cells => cells.map(cell => Number(cell.dataset.value))"
        )
        assert figures == sorted(figures)
        page.locator("th", has_text="eager").press("Enter")
        again = page.locator("td:nth-child(3)").evaluate_all(
            "cells => cells.map(cell => Number(cell.dataset.value))"
        )
        assert again == figures[::-1]
        page.keyboard.press("/")
        page.keyboard.type("net0003")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search/?q=net0003")
        page.locator("a", has_text="net0003").first.click()
        page.wait_for_url("**/workloads/net0003/")
        assert watched.errors == []


def test_a_point_leads_to_its_record_and_a_menu_to_another_metric(opened: Any, address: str) -> None:
    with window(opened) as watched:
        page = watched.page
        page.goto(f"{address}/{paths(address)['series']}")
        page.select_option("select[name=metric]", "latency")
        page.wait_for_url("**metric=latency**")
        page.locator("#history .points path").first.click(force=True)
        page.wait_for_url("**/records/**")
        assert watched.errors == []


def test_a_note_is_written_by_who_signed_in(opened: Any, address: str, store: Store) -> None:
    token = token_of(store, "ada")
    path = paths(address)["regression"]
    with window(opened) as watched:
        page = watched.page
        page.goto(f"{address}/login/")
        page.fill("input[name=token]", token)
        page.locator("main button").click()
        page.wait_for_url(f"{address}/")
        page.goto(f"{address}/{path}")
        page.select_option("select[name=state]", "explained")
        page.fill("textarea", "the driver <b>changed</b>")
        page.locator("form.write button").click()
        page.wait_for_load_state()
        assert "the driver <b>changed</b>" in page.locator("main").inner_text()
        assert watched.errors == []
    assert token not in page.url
