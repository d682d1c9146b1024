"""A webhook hears of every confirmed regression once, and again until it was heard."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from sites import own_record

from tare.errors import BadInput
from tare.site.alerts import MOST_TRIES, check_webhook, send_alerts
from tare.store import schema
from tare.store.database import Store
from tare.store.regressions import Regression, change_regression, now, save


class Hook:
    """Answers with the codes of `answers` in turn, then with 200."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.answers: list[int] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = hook.answers.pop(0) if hook.answers else 200
                if code == 200:
                    hook.heard.append(json.loads(body))
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", hook.address + "elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                hook.heard.append(self.path)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/secret"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


@pytest.fixture
def regression(store: Store) -> Regression:
    store.add([own_record(0), own_record(0, id="later", run="later", steps_s=(2e-3,))])
    found = Regression(
        series=store.rows(sa.select(schema.series.c.id))[0].id, metric="gross", source="check", found=now(),
        before_record="own0", after_record="later", before_date="2026-01-01", after_date="2026-01-02",
        before_label="abc", after_label="def", before=1e-3, after=2e-3, ratio=2.0, low=1.9, high=2.1,
    )  # fmt: skip
    with store.transaction() as connection:
        save(connection, found)
    return found


def test_each_is_told_once(store: Store, hook: Hook, regression: Regression) -> None:
    assert send_alerts(store, hook.address, "https://bench.example.org") == 1
    assert send_alerts(store, hook.address) == 0
    (message,) = hook.heard
    assert message["workload"] == "mlp"
    assert message["ratio"] == 2.0
    assert message["url"] == f"https://bench.example.org/regressions/{regression.id}/"
    assert "+100" in message["text"]
    assert "abc and def" in message["text"]


def test_one_that_was_not_heard_is_told_again(store: Store, hook: Hook, regression: Regression) -> None:
    hook.answers = [500, 404, 302]
    assert [send_alerts(store, hook.address) for _ in range(4)] == [0, 0, 0, 1]
    # A redirect is no delivery, and is not followed.
    assert [message["regression"] for message in hook.heard] == [regression.id]
    assert send_alerts(store, hook.address) == 0


def test_it_is_given_up_after_some_tries(store: Store, hook: Hook, regression: Regression) -> None:
    hook.answers = [500] * 100
    for _ in range(MOST_TRIES + 5):
        assert send_alerts(store, hook.address) == 0
    assert len(hook.answers) == 100 - MOST_TRIES
    assert regression.state == "open"


def test_what_is_not_confirmed_old_or_explained_is_not_told(
    store: Store, hook: Hook, regression: Regression
) -> None:
    change_regression(store, regression.id, "explained", "ada")
    old = (datetime.now(UTC) - timedelta(days=9)).isoformat()
    with store.transaction() as connection:
        save(connection, replace(regression, source="history", after_record="own0"))
        save(connection, replace(regression, found=old, metric="latency"))
    assert send_alerts(store, hook.address) == 0
    assert hook.heard == []


def test_a_webhook_that_is_away_is_no_error(store: Store, regression: Regression) -> None:
    assert send_alerts(store, "http://127.0.0.1:1/") == 0
    assert regression.id


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://x/y", "x", "", "http://"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(BadInput, match="begins with https"):
        check_webhook(address)
