"""Every page of the site answers its question, as HTML, CSV and JSON alike."""

import csv
import html
import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from builders import make_case, make_failure, make_record, make_round
from sites import HOSTILE, SMALL, client_of, explained_record, links_of, own_record
from starlette.testclient import TestClient

from tare.cases.plan import Skip
from tare.records.environment import Environment
from tare.site.questions import Scope
from tare.site.server import PAGES
from tare.store.baselines import set_baseline
from tare.store.database import Store
from tare.store.explanations import keep_explanation
from tare.store.journal import begin

LISTS = [path for path in PAGES if "{" not in path]


def table(client: TestClient, path: str, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"{path.partition('?')[0]}data.json?{path.partition('?')[2]}").json()[
        "tables"
    ][name]
    return rows


@pytest.mark.parametrize("path", LISTS)
def test_every_list_answers(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert "<h1>" in answer.text
    assert client.get(f"{path}data.json").json()["path"] == path.removeprefix("/")


def test_every_link_of_every_page_leads_to_a_page(client: TestClient) -> None:
    """From the front page through everything that is not one of many alike."""
    waiting, seen, kinds = ["/"], {"/"}, dict[str, int]()
    while waiting:
        path = waiting.pop()
        answer = client.get(path)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            for link in links_of(answer.text):
                target = str(answer.url.join(link)).removeprefix("http://testserver")
                kind = re.sub(r"/[^/]*\d[^/]*/", "/N/", target.partition("?")[0])
                kinds[kind] = kinds.get(kind, 0) + 1
                if target not in seen and kinds[kind] <= 3:
                    seen.add(target)
                    waiting.append(target)
    reached = {path.split("/")[1] for path in seen}
    # The search is a form.
    assert reached >= {path.split("/")[1] for path in PAGES} - {"search"} | {"static", "login"}


@pytest.mark.parametrize(
    "path", ["/grid/", "/workloads/", "/runs/", "/machines/", "/coverage/", "/regressions/?days=999"]
)
def test_the_csv_has_what_the_json_has(client: TestClient, path: str) -> None:
    page, _, query = path.partition("?")
    tables = client.get(f"{page}data.json?{query}").json()["tables"]
    for name, rows in tables.items():
        answer = client.get(f"{page}data-{name}.csv?{query}")
        assert answer.headers["content-type"].startswith("text/csv")
        read = list(csv.DictReader(io.StringIO(answer.text)))
        assert len(read) == len(rows)
        for line, row in zip(read, rows, strict=True):
            for column, text in line.items():
                assert text.lstrip("'") == ("" if row.get(column) is None else str(row[column]).lstrip("'"))
    assert client.get(f"{page}data-nothing.csv").status_code == 404


def test_the_grid_shows_the_newest_figure_of_each(client: TestClient) -> None:
    rows = table(client, "/grid/?machine=", "grid")
    assert len(rows) == SMALL.workloads * SMALL.machines
    of_one = table(client, "/grid/?mode=train&rung=eager", "grid")
    assert {row["workload"] for row in of_one} == {"net0001", "net0003", "net0005"}
    assert set(of_one[0]) >= {"eager"}
    assert "compile" not in of_one[0]
    series = of_one[0]["eager path"]
    newest = table(client, f"/{series}", "points")[0]
    assert newest["gross"] == of_one[0]["eager"]
    assert table(client, "/grid/?q=0003", "grid")[0]["workload"] == "net0003"
    speedups = table(client, "/grid/?figure=speedup", "grid")
    assert speedups[0]["eager"] == 1.0
    assert table(client, "/grid/?machine=nothing", "grid") == []


def test_what_got_slower_is_listed_with_its_range_and_its_commands(client: TestClient) -> None:
    rows = table(client, "/regressions/?days=999", "regressions")
    assert {(row["workload"], row["rung"]) for row in rows} >= {("net0000", "vendor")}
    row = next(row for row in rows if row["metric"] == "gross")
    assert row["ratio"] == pytest.approx(1.1, rel=0.05)
    assert row["low"] > 1.02
    page = client.get(f"/{row['path']}").text
    assert "tare bisect --case" in page
    assert f"--good {row['before_label'][:10]} --bad {row['after_label'][:10]}" in page
    assert f"tare compare {row['before_record']} {row['after_record']}" in page
    assert table(client, "/regressions/?days=999&state=fixed", "regressions") == []
    assert table(client, "/regressions/?days=999&workload=net0001", "regressions") == [
        other for other in rows if other["workload"] == "net0001"
    ]


def test_a_series_has_its_points_and_its_change(client: TestClient) -> None:
    (row, *_) = [row for row in table(client, "/regressions/?days=999", "regressions") if row["metric"] == "gross"]
    document = client.get("/" + row["series_path"].replace("/?", "/data.json?")).json()
    history = document["charts"]["history"]
    assert len(history["points"]) == SMALL.nights
    assert [change["worse"] for change in history["changes"]] == [True]
    assert history["points"][0]["low"] < history["points"][0]["value"] < history["points"][0]["high"]
    latency = client.get("/" + row["series_path"].replace("/?metric=gross", "/data.json?metric=latency")).json()
    assert latency["charts"]["history"]["points"][0]["low"] is None
    assert client.get(f"/series/{row['series']}/?points=10000").status_code == 400


def test_a_record_in_full(store: Store) -> None:
    environment = Environment(
        machine={"cpu": "c"}, software={"torch": "2.10.0"}, flags={"f": "on"}, circumstances={}
    )
    store.add([own_record(environment=environment)])
    with client_of(store) as client:
        page = client.get("/records/own0/")
        assert page.status_code == 200
        for text in ("measure again", "tare run mlp", "2.10.0", "Samples", "same"):
            assert text in page.text
        assert client.get("/records/own0/record.json").json() == client.get("/records/own0/record.json").json()
        assert client.get("/records/own0/record.json").json()["id"] == "own0"
        charts = client.get("/records/own0/data.json").json()["charts"]
        assert len(charts["samples-pipelined"]["series"]) == 3
        assert client.get("/records/own0/trace.json.gz").status_code == 404


def test_a_ladder_shows_waterfall_and_findings_of_what_was_explained(store: Store) -> None:
    records = [make_record(make_case(rung=rung), id=rung, run="night") for rung in ("eager", "compile")]
    store.add(records)
    keep_explanation(store, "eager", explained_record("the net on eager").encode())
    with client_of(store) as client:
        page = client.get("/workloads/mlp/").text
        assert "the net on eager" in page
        assert "<svg" in page
        assert "compile" in page
        keep_explanation(store, "eager", b'{"of": "another version"}')
        assert client.get("/workloads/mlp/").status_code == 200


def test_a_run_says_what_it_skipped_and_why(store: Store) -> None:
    journal = begin(store, "plan", "mark", [Skip("mlp/aot/...", "unsupported", "there is no compiler")])
    journal.add_record(make_record(run=journal.run))
    failed = make_round(0, failure=make_failure(message="it broke"), series=[])
    journal.add_record(
        make_record(make_case(rung="aot"), id="bad", run=journal.run, rounds=[failed], failure=failed.failure)
    )
    with client_of(store) as client:
        (run,) = table(client, "/runs/", "runs")
        assert (run["records"], run["good"], run["skipped"], run["state"]) == (2, 1, 1, "not complete")
        page = client.get(f"/{run['path']}").text
        assert "there is no compiler" in page
        reasons = {row["rung"]: row["reason"] for row in table(client, "/coverage/", "reasons")}
        assert reasons == {"aot": "it broke"}


def test_two_machines_side_by_side(client: TestClient) -> None:
    first, second = (row["id"] for row in table(client, "/machines/", "machines"))
    rows = table(client, f"/compare/?a=machine:{first}&b=machine:{second}", "ratios")
    assert 0 < len(rows) <= SMALL.workloads * 4
    assert all(row["ratio"] == pytest.approx(row["a"] / row["b"]) for row in rows)
    assert client.get("/compare/?a=machine:x&b=machine:y").status_code == 404


def test_two_sets_of_records_side_by_side(store: Store) -> None:
    slow = (2e-3, 2.01e-3, 1.99e-3)
    before = [own_record(number) for number in range(3)]
    now = [
        own_record(number, id=f"now{number}", run="now", steps_s=slow, tags={"pr": "12"}) for number in range(3)
    ]
    store.add([*before, *now])
    set_baseline(store, "main", before)
    with client_of(store) as client:
        for a, b in (("baseline:main", "tag.pr=12"), ("ownrun", "now"), ("own0", "now0")):
            page = client.get("/compare/", params={"a": a, "b": b})
            assert page.status_code == 200, page.text
            assert "+100" in page.text
            assert "got worse" in page.text
        for a in ("rung=eager", "x.json", "/etc/passwd.json", "tag.pr=12 records.json"):
            answer = client.get("/compare/", params={"a": a, "b": "now"})
            assert answer.status_code in (400, 404), a


@pytest.mark.parametrize(
    "path",
    ["/records/none/", "/series/none/", "/runs/none/", "/workloads/none/", "/ladders/none/", "/machines/none/",
     "/regressions/none/", "/nothing", "/static/../server.py", "/static/none", "/records/../../etc/passwd/"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "query", ["days=x", "days=-1", "days=99999999999", "days=1e3", "days=%00", "state=%0a", "x=" + "y" * 3000]
)
def test_a_wrong_filter_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/regressions/?{query}").status_code in (400, 414)


def test_hostile_text_is_shown_as_text(store: Store) -> None:
    """In every field that a record from elsewhere may fill."""
    environment = Environment(
        machine={"cpu": HOSTILE, "gpu": HOSTILE},
        software={"torch": HOSTILE},
        flags={},
        circumstances={"host": HOSTILE},
    )
    failed = make_round(0, failure=make_failure(message=HOSTILE, detail=HOSTILE), series=[])
    store.add(
        [
            own_record(0, environment=environment, tags={"note": HOSTILE}),
            own_record(1, environment=environment, rounds=[failed], failure=failed.failure),
        ]
    )
    begin(store, HOSTILE, "mark", [Skip(HOSTILE, "unsupported", HOSTILE)])
    with client_of(store) as client:
        paths = [
            *LISTS,
            "/records/own0/",
            "/records/own1/",
            "/workloads/mlp/",
            *_paths_of(client),
            f"/search/?q={HOSTILE}",
        ]
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert "<script>alert" not in answer.text, path
        assert "&lt;script&gt;alert" in client.get("/coverage/").text
        assert client.get("/runs/").status_code == 200


def _paths_of(client: TestClient) -> Iterator[str]:
    for row in table(client, "/runs/", "runs"):
        yield f"/{row['path']}"
    for row in table(client, "/machines/", "machines"):
        yield f"/{row['path']}"
    for row in table(client, "/runs/ownrun/", "records"):
        yield f"/{row['series_path']}"


def test_a_formula_in_a_csv_is_text(store: Store) -> None:
    begin(store, "=HYPERLINK('http://evil')", "mark", [])
    with client_of(store) as client:
        (line,) = list(csv.DictReader(io.StringIO(client.get("/runs/data-runs.csv").text)))
    assert line["name"].startswith("'=")


COMMITS = "https://example.org/net/commit/{commit}"


def test_commits_lead_to_the_site_that_shows_them(filled: Store) -> None:
    with client_of(filled, commits=COMMITS) as linking, client_of(filled) as plain:
        regression = table(linking, "/regressions/?days=999", "regressions")[0]
        commits = [regression[f"{side}_label"].partition(" · ")[0] for side in ("before", "after")]
        pages = (
            f"/{regression['path']}",
            f"/records/{regression['after_record']}/",
            f"/series/{regression['series']}/",
        )
        shown = [links_of(linking.get(path).text) for path in pages]
        assert [COMMITS.format(commit=commit) in shown[0] for commit in commits] == [True, True]
        assert [any(link.startswith(COMMITS.format(commit=commits[1])) for link in links) for links in shown] == [
            True
        ] * 3
        assert all("example.org" not in plain.get(path).text for path in pages)


def test_what_is_no_commit_is_not_put_into_an_address(store: Store) -> None:
    scope = Scope(store, commits=COMMITS)
    assert scope.commit_address("0123456789ab") == COMMITS.format(commit="0123456789ab")
    assert [
        scope.commit_address(text) for text in ("", "main", "..", "javascript:x", "ABCDEF0123", "abc/../def0")
    ] == [""] * 6


@pytest.mark.parametrize("kind", ["runs/", "regressions/", "grid/", "run", "machine", "compare"])
def test_a_long_table_goes_on_at_its_more(client: TestClient, kind: str) -> None:
    """The parts are the whole, in its order, and the filters stay in the address."""
    machines = [row["id"] for row in table(client, "/machines/", "machines")]
    path, name = {
        "run": (table(client, "/runs/", "runs")[0]["path"], "records"),
        "machine": (f"machines/{machines[0]}/", "series"),
        "compare": (f"compare/?a=machine:{machines[0]}&b=machine:{machines[1]}", "ratios"),
        "regressions/": ("regressions/?days=999", "regressions"),
    }.get(kind, (kind, kind.rstrip("/")))
    mark = "&" if "?" in path else "?"
    whole = table(client, f"/{path}{mark}rows=5000", name)
    size = max(len(whole) // 3, 1)
    address, parts, pages = f"/{path}{mark}rows={size}", [], 0
    while address:
        pages += 1
        parts += table(client, address, name)
        answer = client.get(address)
        links = re.findall(r'href="([^"]*)">more</a>', answer.text)
        address = str(answer.url.join(html.unescape(links[0]))).removeprefix("http://testserver") if links else ""
    assert pages > 1
    assert parts == whole
