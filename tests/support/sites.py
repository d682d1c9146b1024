"""A site for tests: a store of many nights, served in this process or on a port of loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import uvicorn
from builders import make_case, make_record
from starlette.testclient import TestClient
from synthetic import kernels, steps
from synthetic_store import Size, fill

from tare.findings.diagnosis import diagnose
from tare.findings.explained import ExplainedRecord
from tare.guard.regressions import judge_series
from tare.records.codec import encode
from tare.records.record import Record
from tare.site.access import create_token
from tare.site.server import Site, SiteOptions
from tare.site.slow_clients import ImpatientProtocol
from tare.store.database import Store
from tare.trace.explanation import About, explain

SMALL = Size(workloads=6, machines=2, nights=30)
# Text that breaks pages, spreadsheets and databases that do not escape it.
HOSTILE = "<script>alert(1)</script>'\"; DROP TABLE records; --"


def filled_store(path: Path) -> Store:
    store = Store(str(path))
    fill(store, SMALL)
    while judge_series(store):
        pass
    return store


def explained_record(title: str) -> ExplainedRecord:
    """An explanation of a small synthetic trace with one finding."""
    trace = steps(lambda making, at: kernels(making, at, every=200)).build()
    return ExplainedRecord(
        explanation=explain(trace, About(title=title, gross=1_000_000)), diagnosis=diagnose(trace)
    )


def client_of(store: Store, **options: Any) -> TestClient:
    site = Site(store, SiteOptions(maintains=False)._replace(**options))
    return TestClient(site.app(), raise_server_exceptions=False)


@contextmanager
def served(store: Store, **options: Any) -> Iterator[str]:
    """The address of a real server in a thread."""
    site = Site(store, SiteOptions(maintains=False)._replace(**options))
    config = uvicorn.Config(site.app(), http=ImpatientProtocol, port=0, log_level="error", timeout_keep_alive=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    (place,) = (each.getsockname() for serving in server.servers for each in serving.sockets)
    yield f"http://127.0.0.1:{place[1]}"
    server.should_exit = True
    thread.join(20)


class _Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, _: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attributes if name in ("href", "src") and value]


def links_of(page: str) -> list[str]:
    """The addresses that a page leads to, relative to itself."""
    return [link for link in _Links(page).found if not link.startswith(("data:", "#"))]


def token_of(store: Store, name: str = "bench", project: str = "", may_write: bool = True) -> str:
    return create_token(store, name, project, may_write)


def own_record(number: int = 0, **overrides: Any) -> Record:
    return make_record(make_case(batch=number + 1), **{"id": f"own{number}", "run": "ownrun", **overrides})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def upload(client: TestClient, token: str, *records: Record) -> Any:
    body = b'{"records":[' + b",".join(map(encode, records)) + b"]}"
    return client.post("/api/v1/upload", content=body, headers=bearer(token))
