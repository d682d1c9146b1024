"""The site on PostgreSQL shows what it shows on SQLite, also while the server of the store restarts."""

from collections.abc import Iterator
from typing import Any

import pytest
from postgres import PostgresServer, running_server
from sites import SMALL, client_of, own_record, token_of, upload
from starlette.testclient import TestClient
from synthetic_store import fill

from tare.guard.regressions import judge_series
from tare.store.database import Store

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def on_postgres(server: PostgresServer) -> Iterator[TestClient]:
    with Store(server.new_database()) as store:
        fill(store, SMALL)
        while judge_series(store):
            pass
        with client_of(store) as client:
            yield client


def without_moments(document: Any) -> Any:
    """Of two stores that were filled one after the other."""
    if isinstance(document, dict):
        moments = ("found", "created", "first", "last", "before_date", "after_date", "range", "id", "path", "at",
                   "from", "until")  # fmt: skip
        return {name: without_moments(value) for name, value in document.items() if name not in moments}
    return [without_moments(each) for each in document] if isinstance(document, list) else document


PATHS = [
    "/regressions/?days=999",
    "/workloads/",
    "/workloads/net0000/",
    "/grid/?machine=",
    "/grid/?figure=tare&mode=infer",
    "/runs/",
    "/machines/",
    "/coverage/",
    "/search/?q=net00",
    "/search/?q=00000014",
    "/records/s00003n00004/",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_the_same_on_both(client: TestClient, on_postgres: TestClient, path: str) -> None:
    page, _, query = path.partition("?")
    assert on_postgres.get(path).status_code == 200
    here, there = (each.get(f"{page}data.json?{query}").json() for each in (client, on_postgres))
    assert without_moments(there) == without_moments(here)


def test_a_restart_of_the_database_is_survived(server: PostgresServer) -> None:
    with Store(server.new_database()) as store:
        token = token_of(store)
        with client_of(store) as client:
            assert upload(client, token, own_record(0)).status_code == 200
            server.stop()
            for path in ("/", "/runs/data.json", "/health"):
                answer = client.get(path)
                assert answer.status_code == 503, path
                assert "hunter2" not in answer.text
            assert upload(client, token, own_record(1)).status_code == 503
            server.start()
            assert client.get("/").status_code == 200
            assert upload(client, token, own_record(1)).json()["new"] == 1
        assert len(store.find()) == 2
