"""Uploads: everything arrives once, whatever is repeated, cut off, too large or malicious."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from builders import make_case, make_record
from msgspec.structs import replace
from sites import HOSTILE, client_of, explained_record, own_record, served, token_of
from starlette.testclient import TestClient

from tare.cases.plan import Skip
from tare.commands.push import SiteClient, push, read_token
from tare.errors import BadInput, TareError
from tare.records.codec import encode
from tare.site import limits, slow_clients
from tare.site.uploads import Upload
from tare.store import schema
from tare.store.database import Store
from tare.store.explanations import find_trace, keep_explanation
from tare.store.journal import begin
from tare.store.maintenance import check_store
from tare.store.regressions import Regression, regressions_of, save
from tare.system.home import trace_paths


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store of a machine that measures: a run of 30 records with a skip, an explanation and a regression."""
    monkeypatch.setenv("TARE_HOME", str(tmp_path / "home"))
    with Store(str(tmp_path / "local.db")) as local:
        journal = begin(local, "night", "mark", [Skip("mlp/aot", "unsupported", "no compiler")])
        for number in range(30):
            journal.add_record(own_record(number, run=journal.run))
        journal.finish()
        confirmation = begin(local, "night", "again", [], confirmation=True)
        confirmation.add_record(own_record(0, id="confirmed", run=confirmation.run, steps_s=(2e-3,)))
        keep_explanation(local, "own3", explained_record("net").encode())
        path, _ = trace_paths("own3")
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(b'{"traceEvents": []}'))
        found = Regression(
            series=local.rows(sa.select(schema.series.c.id).where(schema.series.c.batch == 1))[0].id,
            metric="gross", source="check", found="2999-01-01T00:00:00+00:00", before_record="own0",
            after_record="confirmed", before_date="2026-01-01", after_date="2026-01-02", before_label="a",
            after_label="b", before=1e-3, after=2e-3, ratio=2.0, low=1.9, high=2.1,
        )  # fmt: skip
        with local.transaction() as connection:
            save(connection, found)
        yield local


def test_a_push_brings_everything_once(local: Store, store: Store) -> None:
    token = token_of(store, project="lab")
    with served(store) as address:
        first = push(local, SiteClient(address, token), with_traces=True)
        again = push(local, SiteClient(address, token), with_traces=True)
    assert (first.records, first.sent, first.explanations, first.traces, first.regressions) == (31, 31, 1, 1, 1)
    assert (again.records, again.sent, again.explanations, again.traces, again.regressions) == (31, 0, 0, 0, 0)
    assert {record.id for record in store.find()} == {record.id for record in local.find()}
    assert list(check_store(store)) == []
    runs = {row.name: row for row in store.rows(sa.select(schema.runs).order_by(schema.runs.c.created.desc()))}
    assert {row.project for row in runs.values()} == {"lab"}
    (first_run,) = (row for row in store.rows(sa.select(schema.runs)) if row.skipped)
    assert first_run.finished
    assert not first_run.confirmation
    # A confirmation is no point of a series, there as here.
    assert store.rows(sa.select(sa.func.sum(schema.series.c.points)))[0][0] == 30
    (series,) = store.rows(sa.select(schema.series).where(schema.series.c.batch == 1))
    assert series.project == "lab"
    (kept,) = regressions_of(store, series.id).values()
    assert (kept.ratio, kept.after_record) == (2.0, "confirmed")
    assert find_trace(store, "own3") == trace_paths("own3")[0].read_bytes()


def test_terms_choose_what_is_sent(local: Store, store: Store) -> None:
    with served(store) as address:
        result = push(local, SiteClient(address, token_of(store)), ["batch=2,3"])
    assert result.sent == 2
    assert {record.case.batch for record in store.find()} == {2, 3}


def test_a_push_that_was_cut_off_goes_on(local: Store, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.commands.push.PORTION_BYTES", 20_000)
    token, posts = token_of(store), []
    real = SiteClient.post

    def breaks(self: SiteClient, path: str, data: bytes, is_json: bool = True) -> Any:
        posts.append(path)
        if len(posts) == 4:
            raise TareError("the network is gone")
        return real(self, path, data, is_json)

    with served(store) as address:
        monkeypatch.setattr(SiteClient, "post", breaks)
        with pytest.raises(TareError, match="the network is gone"):
            push(local, SiteClient(address, token))
        some = len(store.find())
        assert 0 < some < 31
        result = push(local, SiteClient(address, token))
    assert result.sent == 31 - some
    assert len(store.find()) == 31


class RestartingServer(BaseHTTPRequestHandler):
    """Says once that it is busy, breaks one connection, and then answers."""

    requests = 0

    def do_POST(self) -> None:
        type(self).requests += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.requests == 2:
            self.close_connection = True
            return
        body = b'{"missing": ["own1"]}' if self.requests > 2 else b""
        self.send_response(200 if self.requests > 2 else 503)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_restarts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.commands.push.FIRST_WAIT_S", 0.01)
    with HTTPServer(("127.0.0.1", 0), RestartingServer) as front:
        threading.Thread(target=front.serve_forever, daemon=True).start()
        server = SiteClient(f"http://127.0.0.1:{front.server_port}", "token")
        assert server.post("/api/v1/missing", b'{"ids": ["own1"]}') == {"missing": ["own1"]}
        front.shutdown()
    assert RestartingServer.requests == 3


def test_a_second_record_of_a_case_is_refused_and_named(store: Store) -> None:
    token = token_of(store)
    with client_of(store) as client:
        assert post(client, token, [own_record(0)])["new"] == 1
        assert post(client, token, [own_record(0, id="other")]) == {
            "new": 0,
            "refused": ["other"],
            "regressions": 0,
        }
        # The same id again changes nothing, whatever it holds now.
        assert post(client, token, [own_record(0, steps_s=(9.0,))])["new"] == 0
    assert store.find() == [own_record(0)]


def post(client: TestClient, token: str, records: list[Any], **others: Any) -> Any:
    upload = Upload(records=[msgspec.Raw(encode(record)) for record in records], **others)
    return send(client, token, msgspec.json.encode(upload)).json()


def send(client: TestClient, token: str, body: bytes, path: str = "/api/v1/upload", **headers: str) -> Any:
    return client.post(path, content=body, headers={"Authorization": f"Bearer {token}", **headers})


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'{"records": 1}', b'{"records": [1]}', b'{"records": [{}]}', b"\xff\xfe",
        b'{"records": [{"version": "9"}]}',
        b'{"runs": [{"id": "../x", "created": "2026-01-01T00:00", "name": "n"}]}',
        b'{"runs": [{"id": "x", "created": "yesterday", "name": "n"}]}', b'{"explanations": {"own0": {}}}',
        b"[" * 200_000, b'{"records": [' + b"{}," * 300 + b"{}]}", b'{"regressions": [{"family": "x"}]}',
    ],
)  # fmt: skip
def test_a_malformed_upload_is_refused_whole(store: Store, body: bytes) -> None:
    with client_of(store) as client:
        answer = send(client, token_of(store), body)
    assert answer.status_code == 400, answer.text
    assert "Traceback" not in answer.text
    assert len(answer.json()["error"]) < 600
    assert store.find() == []
    assert store.rows(sa.select(schema.runs)) == []


def test_one_bad_record_refuses_the_others(store: Store) -> None:
    good, bad = encode(own_record(0)), encode(own_record(1)).replace(b'"status":"same"', b'"status":"fast"')
    with client_of(store) as client:
        answer = send(client, token_of(store), b'{"records":[' + good + b"," + bad + b"]}")
    assert answer.status_code == 400
    assert "record 2 of the upload" in answer.json()["error"]
    assert store.find() == []


def test_bodies_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of(store)
    monkeypatch.setattr(limits, "LARGEST_TEXT", 1 << 20)
    bomb = gzip.compress(b" " * (64 << 20))
    with client_of(store) as client:
        answer = send(client, token, bomb, **{"Content-Encoding": "gzip"})
        assert answer.status_code == 413
        assert "expands" in answer.json()["error"]
        assert send(client, token, b"x" * (33 << 20)).status_code == 413
        assert send(client, token, b"not gzip", **{"Content-Encoding": "gzip"}).status_code == 400
        assert send(client, token, gzip.compress(b"{}")[:-4], **{"Content-Encoding": "gzip"}).status_code == 400
        assert (
            send(client, token, gzip.compress(b"{}") + b"more", **{"Content-Encoding": "gzip"}).status_code == 400
        )
        ids = json.dumps({"ids": ["x"] * 6000}).encode()
        assert send(client, token, ids, "/api/v1/missing").status_code == 400
        assert send(client, token, b"x", "/api/v1/traces/own0").status_code == 400
    assert store.find() == []


def test_a_slow_body_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.3)
    token = token_of(store)
    with served(store) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as client:
            lines = ("POST /api/v1/upload HTTP/1.1", "Host: x", f"Authorization: Bearer {token}")
            client.sendall("\r\n".join([*lines, "Content-Length: 1000", "", "{"]).encode())
            client.settimeout(20)
            answer = client.recv(4096)
        assert b"408" in answer.split(b"\r\n")[0]


def drip(client: socket.socket) -> None:
    for _ in range(100):
        client.sendall(b"X")
        time.sleep(0.05)


def test_a_head_that_does_not_come_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the second one of a connection, and one that comes byte by byte."""
    monkeypatch.setattr(slow_clients, "HEAD_S", 0.5)
    with served(store) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        for whole, begun in (
            (b"", b""),
            (b"", b"GET / HTTP/1.1\r\n"),
            (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"GET"),
        ):
            with socket.create_connection((host, int(port))) as client:
                client.settimeout(20)
                if whole:
                    client.sendall(whole)
                    assert client.recv(4096).startswith(b"HTTP/1.1 200")
                client.sendall(begun)
                with pytest.raises(ConnectionError):
                    drip(client)


def test_injection_is_stored_as_text(store: Store) -> None:
    token = token_of(store, project=HOSTILE[:60])
    record = own_record(0, tags={"note": HOSTILE})
    record = replace(record, environment=replace(record.environment, machine={"cpu": HOSTILE}))
    with client_of(store) as client:
        assert post(client, token, [record])["new"] == 1
        for path in (
            "/search/?q=' OR 1=1 --",
            "/grid/?machine=' OR '1'='1",
            "/runs/%27%20OR%201=1/",
            "/grid/?q=%25",
        ):
            assert client.get(path).status_code in (200, 404)
        assert client.get("/grid/data.json?machine=' OR '1'='1").json()["tables"]["grid"] == []
    assert store.find() == [record]
    assert list(check_store(store)) == []


def test_too_many_requests_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from tare.site.server import Site, SiteOptions

    site = Site(store, SiteOptions(maintains=False))
    monkeypatch.setattr(site, "_limit", limits.RateLimit(rate=0.001, burst=3))
    with TestClient(site.app()) as client:
        codes = [client.get("/runs/").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        assert int(client.get("/runs/").headers["retry-after"]) > 0


def test_a_rate_limit_refills_and_forgets() -> None:
    limit = limits.RateLimit(rate=2, burst=2)
    assert [limit.wait_s("a", now) for now in (0.0, 0.0)] == [0, 0]
    assert limit.wait_s("a", 0.0) == pytest.approx(0.5)
    assert limit.wait_s("b", 0.0) == 0
    assert limit.wait_s("a", 0.5) == 0
    assert limit.wait_s("a", 0.5) > 0
    assert limit.wait_s("a", 100.0) == 0
    for number in range(limits.MOST_CLIENTS + 5):
        limit.wait_s(str(number), 0.0)
    assert len(limit._buckets) == limits.MOST_CLIENTS


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("bench.example.org", "no address of a site"),
        ("ftp://bench.example.org", "no address of a site"),
        ("https://ada:secret@bench.example.org", "no user and no password"),
        ("http://bench.example.org", "would send the token to bench.example.org"),
    ],
)
def test_a_wrong_address_is_refused(address: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        SiteClient(address, "token")
    assert "secret" not in str(refused.value)


def test_a_token_comes_from_a_file_or_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("tare_x\n")
    assert read_token(path, None) == "tare_x"
    assert read_token(None, " tare_y ") == "tare_y"
    for file, variable, message in (
        (None, None, "a token is needed"),
        (tmp_path / "none", None, "cannot read the token"),
        (None, "a b", "is no token"),
        (None, "x" * 300, "is no token"),
    ):
        with pytest.raises(BadInput, match=message):
            read_token(file, variable)


def test_refusals_and_silence_are_one_line(store: Store, local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.commands.push.FIRST_WAIT_S", 0.01)
    with served(store) as address:
        with pytest.raises(BadInput, match="refuses: this token is not known here"):
            push(local, SiteClient(address, "tare_wrong"))
        with pytest.raises(BadInput, match="is it the address of a tare site"):
            SiteClient(address + "/nothing", "tare_wrong").post("/", b"{}")
    with pytest.raises(TareError, match="does not answer"):
        push(local, SiteClient("http://127.0.0.1:1", "tare_wrong"))


def test_two_uploads_at_once_do_not_double(store: Store) -> None:
    token, results = token_of(store), []
    records = [make_record(make_case(batch=number + 1), id=f"r{number}", run="shared") for number in range(20)]
    with served(store) as address:

        def upload() -> None:
            upload = Upload(records=[msgspec.Raw(encode(record)) for record in records])
            results.append(SiteClient(address, token).post("/api/v1/upload", msgspec.json.encode(upload))["new"])

        threads = [threading.Thread(target=upload) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(results) == 20
    assert len(store.find()) == 20
    assert store.rows(sa.select(sa.func.sum(schema.series.c.points)))[0][0] == 20
