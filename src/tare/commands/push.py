"""`tare push`: what a store has, and a server does not have yet, is sent to the server."""

import gzip
import ipaddress
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa

from tare.errors import BadInput, TareError
from tare.records.codec import decode_record
from tare.site.access import LONGEST_TOKEN
from tare.site.uploads import (
    LONGEST_TRACE,
    MOST_IDS,
    MOST_RECORDS,
    Upload,
    UploadedRegression,
    UploadedRun,
    uploaded_regression,
)
from tare.store import schema
from tare.store.database import Store
from tare.store.explanations import find_explanation
from tare.store.regressions import read_row
from tare.store.selection import find_in_store
from tare.system.home import trace_paths
from tare.system.http_client import opener_without_redirects

TOKEN = "TARE_TOKEN"
TIMEOUT_S, TRIES, FIRST_WAIT_S = 60.0, 4, 1.0
# Bytes of records in one request, before they are compressed.
PORTION_BYTES = 8 << 20
# Regressions are few, and are sent again for so many days: a server takes each once.
REGRESSION_DAYS = 30
LONGEST_ANSWER = 16 << 20


class PushResult(msgspec.Struct, kw_only=True):
    """What the server had already is not counted as sent."""

    to: str
    records: int
    sent: int = 0
    explanations: int = 0
    traces: int = 0
    regressions: int = 0
    refused: list[str] = []


class SiteClient:
    """A site that takes uploads."""

    def __init__(self, address: str, token: str, plain: bool = False) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise BadInput(f"'{address[:80]}' is no address of a site: https://HOST[:PORT][/PATH]")
        if parts.username or parts.password:
            raise BadInput("the address of a site has no user and no password: the token is in --token-file")
        if parts.scheme == "http" and not plain and not _is_loopback(parts.hostname):
            raise BadInput(
                f"http:// would send the token to {parts.hostname} for everybody on the way to read: use https://,"
                " or --plain in a network that you trust"
            )
        self.address, self._token = address.rstrip("/"), token
        self._opener = opener_without_redirects()

    def post(self, path: str, data: bytes, is_json: bool = True) -> Any:
        """The answer. A server that does not answer is asked again; BadInput says what it refuses."""
        headers = {"Authorization": f"Bearer {self._token}"}
        if is_json:
            headers |= {"Content-Type": "application/json", "Content-Encoding": "gzip"}
            data = gzip.compress(data, 5, mtime=0)
        request = urllib.request.Request(f"{self.address}{path}", data, headers, method="POST")
        wait = FIRST_WAIT_S
        for attempt in range(1, TRIES + 1):
            try:
                with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                    return json.loads(answer.read(LONGEST_ANSWER))
            except urllib.error.HTTPError as error:
                if error.code not in (429, 502, 503, 504) or attempt == TRIES:
                    raise _refusal(self.address, error) from None
                wait = max(wait, _wait_of(error))
            except (OSError, ValueError) as error:
                if attempt == TRIES:
                    reason = getattr(error, "reason", error)
                    raise TareError(f"{self.address} does not answer: {reason}") from None
            time.sleep(wait)
            wait *= 2
        raise AssertionError


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wait_of(error: urllib.error.HTTPError) -> float:
    given = error.headers.get("Retry-After", "") if error.headers else ""
    return min(float(given), 60.0) if given.isdigit() else 0.0


def _refusal(address: str, error: urllib.error.HTTPError) -> TareError:
    try:
        reason = str(json.loads(error.read(10_000))["error"])[:300]
    except (ValueError, KeyError, TypeError, OSError):
        reason = f"status {error.code}; is it the address of a tare site?"
    return BadInput(f"{address} refuses: {reason}")


def read_token(file: Path | None, variable: str | None) -> str:
    """The token from a file, or from the environment: never from the command line, which others see."""
    if file is None and not variable:
        raise BadInput(
            f"a token is needed: --token-file FILE, or {TOKEN} (on the server: tare serve token create)"
        )
    try:
        token = file.read_text(encoding="ascii").strip() if file else (variable or "").strip()
    except (OSError, UnicodeError) as error:
        raise BadInput(f"cannot read the token from {file}: {error}") from None
    if not token or len(token) > LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise BadInput(f"what {file or TOKEN} holds is no token")
    return token


def push(
    store: Store,
    site: SiteClient,
    terms: Sequence[str] = (),
    with_traces: bool = False,
    on_record: Callable[[int, int], None] = lambda *_: None,
) -> PushResult:
    """Sends the records for which the terms hold (all without terms). An interrupted push is simply repeated."""
    ids = _ids(store, terms)
    result = PushResult(to=site.address, records=len(ids))
    missing = _missing(site, ids, "records")
    on_record(len(ids) - len(missing), len(ids))
    sent_runs: set[str] = set()
    for upload in _uploads(store, missing, sent_runs):
        answer = site.post("/api/v1/upload", msgspec.json.encode(upload))
        result.sent += int(answer["new"])
        result.refused += answer["refused"]
        on_record(len(upload.records), len(ids))
    unfinished = _runs(store, sent_runs)
    if unfinished:
        # Complete only now that all of their records are there.
        site.post("/api/v1/upload", msgspec.json.encode(Upload(runs=unfinished)))
    _push_explanations(store, site, ids, with_traces, result)
    if found := list(_regressions(store)):
        result.regressions = site.post("/api/v1/upload", msgspec.json.encode(Upload(regressions=found)))[
            "regressions"
        ]
    return result


def _ids(store: Store, terms: Sequence[str]) -> list[str]:
    """Oldest first, so that a series grows in its order."""
    columns = schema.records.c
    if terms:
        return [record.id for record in find_in_store(terms, store).records]
    return [row.id for row in store.stream(sa.select(columns.id).order_by(columns.created, columns.id))]


def _missing(site: SiteClient, ids: Sequence[str], kind: str) -> list[str]:
    missing: list[str] = []
    for start in range(0, len(ids), MOST_IDS):
        wanted = {"ids": ids[start : start + MOST_IDS], "of": kind}
        missing += site.post("/api/v1/missing", msgspec.json.encode(wanted))["missing"]
    return missing


def _uploads(store: Store, ids: Sequence[str], sent_runs: set[str]) -> Iterator[Upload]:
    documents, table = schema.documents, schema.records
    for start in range(0, len(ids), MOST_RECORDS):
        portion = ids[start : start + MOST_RECORDS]
        statement = sa.select(table.c.run, documents.c.document).join_from(
            table, documents, documents.c.record == table.c.id
        )
        rows = store.rows(statement.where(table.c.id.in_(portion)).order_by(table.c.created))
        pending: list[Any] = []
        size = 0
        for row in rows:
            if pending and size + len(row.document) > PORTION_BYTES:
                yield _upload(store, pending, sent_runs)
                pending, size = [], 0
            pending.append(row)
            size += len(row.document)
        if pending:
            yield _upload(store, pending, sent_runs)


def _upload(store: Store, rows: Sequence[Any], sent_runs: set[str]) -> Upload:
    new_runs = {row.run for row in rows} - sent_runs
    sent_runs |= new_runs
    runs = [msgspec.structs.replace(run, finished=False) for run in _runs(store, new_runs)]
    return Upload(runs=runs, records=[msgspec.Raw(row.document.encode()) for row in rows])


def _runs(store: Store, ids: set[str]) -> list[UploadedRun]:
    table = schema.runs
    fields = UploadedRun.__struct_fields__
    rows = store.rows(sa.select(*(table.c[name] for name in fields)).where(table.c.id.in_(sorted(ids))))
    return [UploadedRun(**row._mapping) for row in rows]


def _push_explanations(
    store: Store, site: SiteClient, ids: Sequence[str], with_traces: bool, result: PushResult
) -> None:
    table = schema.explanations
    wanted = set(ids)
    explained = [row.record for row in store.rows(sa.select(table.c.record)) if row.record in wanted]
    for id_ in _missing(site, explained, "explanations"):
        document = find_explanation(store, id_)
        if document is not None:
            upload = Upload(explanations={id_: msgspec.Raw(document.encode())})
            site.post("/api/v1/upload", msgspec.json.encode(upload))
            result.explanations += 1
    if not with_traces:
        return
    for id_ in _missing(site, explained, "traces"):
        path, _ = trace_paths(id_)
        if path.is_file() and path.stat().st_size <= LONGEST_TRACE:
            site.post(f"/api/v1/traces/{id_}", path.read_bytes(), is_json=False)
            result.traces += 1


def _regressions(store: Store) -> Iterator[UploadedRegression]:
    """What checks of this store have confirmed lately."""
    table, documents = schema.regressions, schema.documents
    since = (datetime.now(UTC) - timedelta(days=REGRESSION_DAYS)).isoformat(timespec="microseconds")
    statement = sa.select(table, documents.c.document).join_from(
        table, documents, documents.c.record == table.c.after_record
    )
    for row in store.rows(statement.where(table.c.source == "check", table.c.found >= since)):
        record = decode_record(row.document, f"record {row.after_record} in {store.where}")
        yield uploaded_regression(record, read_row(row))
