"""The server: addresses to pages, uploads, and what every answer carries."""

import contextlib
import gzip
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from tare.errors import BadInput, TareError
from tare.guard.regressions import judge_series
from tare.records.codec import encode
from tare.site.access import LONGEST_TOKEN, TokenHolder, find_reader, note_write
from tare.site.alerts import send_alerts
from tare.site.limits import LARGEST_FORM, RateLimit, read_body
from tare.site.page import Filter, Form, Lines, Page
from tare.site.pages import (
    compare,
    coverage,
    grid,
    machines,
    records,
    regressions,
    runs,
    search,
    series,
    workloads,
)
from tare.site.pages.common import Query
from tare.site.questions import Scope, one_regression
from tare.site.render import STATIC, page_html, static_file
from tare.site.uploads import accept, accept_trace, missing_ids
from tare.store.database import Store, StoreFailed
from tare.store.regressions import add_note, change_regression
from tare.system.redaction import redact

# Charts set the styles of their elements; scripts come from files alone.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
COOKIE, BEARER = "tare-token", "Bearer "
COOKIE_S = 30 * 86_400
LONGEST_QUERY = 2000
# How often new points are searched for regressions, and alerts are sent.
MAINTENANCE_S = 30.0
ReadAccess = Literal["open", "token"]


class SiteOptions(NamedTuple):
    """`read` says who may look; `webhook` is told of confirmed regressions; `address` is that of the site, and
    `commits` the one that shows a commit."""

    read: ReadAccess = "open"
    webhook: str = ""
    address: str = ""
    commits: str = ""
    maintains: bool = True


DEFAULTS = SiteOptions()

# A page by what is asked: the filters of its address, and the parts of its path.
PageOf = Callable[[Scope, Query, Mapping[str, str]], Page]


def _plain(page_of: Callable[[Scope], Page]) -> PageOf:
    return lambda scope, *_: page_of(scope)


def _filtered(page_of: Callable[[Scope, Query], Page]) -> PageOf:
    return lambda scope, query, _: page_of(scope, query)


def _one(page_of: Callable[[Scope, str], Page]) -> PageOf:
    return lambda scope, _, parts: page_of(scope, parts["id"])


def _paged(page_of: Callable[[Scope, str, Query], Page]) -> PageOf:
    return lambda scope, query, parts: page_of(scope, parts["id"], query)


PAGES: dict[str, PageOf] = {
    "/": _plain(regressions.front_page),
    "/regressions/": _filtered(regressions.list_page),
    "/regressions/{id}/": _one(regressions.regression_page),
    "/workloads/": _filtered(workloads.list_page),
    "/workloads/{id}/": _one(workloads.workload_page),
    "/ladders/{id}/": _one(workloads.ladder_page),
    "/series/{id}/": _paged(series.series_page),
    "/records/{id}/": _one(records.record_page),
    "/runs/": _filtered(runs.list_page),
    "/runs/{id}/": _paged(runs.run_page),
    "/machines/": _plain(machines.list_page),
    "/machines/{id}/": _paged(machines.machine_page),
    "/grid/": _filtered(grid.grid_page),
    "/coverage/": _filtered(coverage.coverage_page),
    "/compare/": _filtered(compare.compare_page),
    "/search/": _filtered(search.search_page),
}


class Site:
    """Answers requests from a store."""

    def __init__(self, store: Store, options: SiteOptions = DEFAULTS) -> None:
        self.store, self.options = store, options
        self._limit = RateLimit()
        self._files = {name: _Packed(*static_file(name)) for name in STATIC}
        self._wake, self._ends = threading.Event(), threading.Event()

    def app(self) -> Starlette:
        routes = [Route(path, self._page_endpoint(page)) for path, page in PAGES.items()]
        for path, page in PAGES.items():
            routes.append(Route(path + "data.json", self._data_endpoint(page)))
            routes.append(Route(path + "data-{table}.csv", self._data_endpoint(page)))
        routes += [
            Route("/records/{id}/record.json", self._record_json),
            Route("/records/{id}/trace.json.gz", self._trace),
            Route("/regressions/{id}/", self._annotate, methods=["POST"]),
            Route("/login/", self._login_page),
            Route("/login/", self._login, methods=["POST"]),
            Route("/static/{name}", self._static),
            Route("/api/v1/missing", self._missing, methods=["POST"]),
            Route("/api/v1/upload", self._upload, methods=["POST"]),
            Route("/api/v1/traces/{id}", self._upload_trace, methods=["POST"]),
            Route("/health", self._health),
        ]
        return Starlette(
            routes=routes,
            lifespan=self._lifespan,
            middleware=[Middleware(SafeAnswers), Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4)],
            exception_handlers=dict.fromkeys((HTTPException, LookupError, TareError, Exception), self._failed),
        )

    # Pages

    def _page_endpoint(self, page_of: PageOf) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            reader, page = self._page(request, page_of)
            may_write = reader is not None and reader.may_write
            name = reader.name if reader else ""
            return _html(page_html(page, request.url.query, name, may_write))

        return endpoint

    def _data_endpoint(self, page_of: PageOf) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            _, page = self._page(request, page_of)
            name = request.path_params.get("table")
            if name is None:
                return Response(msgspec.json.encode(page.document), media_type="application/json")
            table = next((table for table in page.tables if table.name == name), None)
            if table is None:
                raise LookupError(f"this page has no table {name[:40]}")
            return PlainTextResponse(table.csv, media_type="text/csv; charset=utf-8")

        return endpoint

    def _page(self, request: Request, page_of: PageOf) -> tuple[TokenHolder | None, Page]:
        reader, scope = self._reader_and_scope(request)
        return reader, page_of(scope, _query(request), request.path_params)

    def _record_json(self, request: Request) -> Response:
        _, scope = self._reader_and_scope(request)
        record = records.find_record(scope, request.path_params["id"])
        return Response(encode(record), media_type="application/json")

    def _trace(self, request: Request) -> Response:
        _, scope = self._reader_and_scope(request)
        id_ = records.find_record(scope, request.path_params["id"]).id
        trace = records.find_stored_trace(scope, id_)
        if trace is None:
            raise LookupError(f"no trace of record {id_} is kept here")
        named = {"Content-Disposition": f'attachment; filename="{id_}.json.gz"'}
        return Response(trace, media_type="application/gzip", headers=named)

    def _static(self, request: Request) -> Response:
        packed = self._files.get(request.path_params["name"])
        if packed is None:
            raise LookupError("there is no such file")
        return packed.answer(request)

    def _health(self, _: Request) -> Response:
        """For load balancers: whether the store answers."""
        Scope(self.store).rows(sa.select(sa.literal(1)))
        return PlainTextResponse("ok")

    # Writing

    async def _annotate(self, request: Request) -> Response:
        """The state, the owner and a note of a regression, from its page."""
        _require_own_origin(request)
        form = _form(await read_body(request, LARGEST_FORM))
        return await run_in_threadpool(self._keep_note, request, form)

    def _keep_note(self, request: Request, form: Mapping[str, str]) -> Response:
        reader, scope = self._reader_and_scope(request)
        if reader is None or not reader.may_write:
            raise HTTPException(403, "a token that may write is needed: sign in")
        id_ = request.path_params["id"]
        if one_regression(scope, id_) is None:
            raise LookupError(f"there is no regression {id_[:40]}")
        change_regression(self.store, id_, form.get("state", ""), form.get("owner", "").strip())
        if form.get("text", "").strip():
            add_note(self.store, id_, reader.name, form["text"])
        note_write(self.store, reader, "annotate", f"regression {id_}")
        return RedirectResponse(f"{request.scope.get('root_path', '')}/regressions/{id_}/", 303)

    def _login_page(self, _: Request) -> Response:
        return _html(page_html(_login_form(""), may_write=True))

    async def _login(self, request: Request) -> Response:
        _require_own_origin(request)
        token = _form(await read_body(request, LARGEST_FORM)).get("token", "").strip()
        answer = RedirectResponse(f"{request.scope.get('root_path', '')}/", 303)
        if not token:
            answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
            return answer
        if await run_in_threadpool(find_reader, self.store, token) is None:
            return _html(
                page_html(_login_form("this token is not known here, or was revoked"), may_write=True), 403
            )
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, max_age=COOKIE_S, httponly=True, samesite="strict", secure=secure)
        return answer

    async def _missing(self, request: Request) -> Response:
        await run_in_threadpool(self._writer, request)
        data = await read_body(request)
        return JSONResponse({"missing": await run_in_threadpool(missing_ids, self.store, data)})

    async def _upload(self, request: Request) -> Response:
        reader = await run_in_threadpool(self._writer, request)
        data = await read_body(request)

        def store_it() -> Any:
            result = accept(self.store, reader, data)
            note_write(self.store, reader, "upload", f"{result.new} records, {result.regressions} regressions")
            return result

        result = await run_in_threadpool(store_it)
        self._wake.set()
        return Response(msgspec.json.encode(result), media_type="application/json")

    async def _upload_trace(self, request: Request) -> Response:
        reader = await run_in_threadpool(self._writer, request)
        data, id_ = await read_body(request), request.path_params["id"]

        def store_it() -> None:
            accept_trace(self.store, reader, id_, data)
            note_write(self.store, reader, "upload", f"trace of record {id_[:64]}")

        await run_in_threadpool(store_it)
        return JSONResponse({"record": id_})

    # Who asks

    def _reader(self, request: Request) -> TokenHolder | None:
        given = request.headers.get("authorization", "")
        token = given.removeprefix(BEARER) if given.startswith(BEARER) else request.cookies.get(COOKIE, "")
        if not token or len(token) > LONGEST_TOKEN:
            return None
        return find_reader(self.store, token)

    def _writer(self, request: Request) -> TokenHolder:
        """By the header alone: no other site can make a browser send it."""
        token = request.headers.get("authorization", "").removeprefix(BEARER)
        reader = find_reader(self.store, token)
        self._count(request, reader)
        if reader is None:
            text = "this token is not known here, or was revoked" if token else "a token is needed"
            text += ": on the server, tare serve token create NAME --write"
            raise HTTPException(401, text, {"WWW-Authenticate": "Bearer"})
        if not reader.may_write:
            raise HTTPException(403, "this token may only read")
        return reader

    def _count(self, request: Request, reader: TokenHolder | None) -> None:
        client = request.client.host if request.client else ""
        if wait := self._limit.wait_s(reader.name if reader else client):
            raise HTTPException(429, "too many requests", {"Retry-After": str(int(wait) + 1)})

    def _reader_and_scope(self, request: Request) -> tuple[TokenHolder | None, Scope]:
        reader = self._reader(request)
        self._count(request, reader)
        if reader is None and self.options.read == "token":
            raise HTTPException(401, "a token is needed to read this site: sign in")
        return reader, Scope(self.store, reader.project or None if reader else None, self.options.commits)

    # What is done beside answering

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        worker = threading.Thread(target=self._maintain, daemon=True)
        if self.options.maintains:
            worker.start()
        try:
            yield
        finally:
            self._ends.set()
            self._wake.set()
            if worker.is_alive():
                worker.join(10)

    def _maintain(self) -> None:
        while not self._ends.is_set():
            # The store may be away for a while, or another server may do the same.
            with contextlib.suppress(TareError):
                while not self._ends.is_set() and judge_series(self.store):
                    pass
                if self.options.webhook:
                    send_alerts(self.store, self.options.webhook, self.options.address)
            self._wake.wait(MAINTENANCE_S)
            self._wake.clear()

    # Errors

    def _failed(self, request: Request, error: Exception) -> Response:
        status, text, headers = _status_of(error)
        if request.url.path.startswith("/api/") or request.url.path.endswith((".json", ".csv")):
            return JSONResponse({"error": text}, status, headers)
        page = Page(f"{status}: {text}", "", [Lines([text], "warning")] if status >= 500 else [])
        depth = request.url.path.removeprefix(request.scope.get("root_path", "")).count("/") - 1
        return _html(page_html(page._replace(path="x/" * max(depth, 0))), status, headers)


class _Packed:
    """A static file, compressed once."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._content, self._kind = content, f"{kind}; charset=utf-8"
        self._packed = gzip.compress(content, 9, mtime=0)
        self._tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    def answer(self, request: Request) -> Response:
        headers = {"ETag": self._tag, "Cache-Control": "max-age=300", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self._packed, media_type=self._kind, headers={**headers, "Content-Encoding": "gzip"})
        return Response(self._content, media_type=self._kind, headers=headers)


class SafeAnswers:
    """Puts the same headers on every answer, those to errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = Headers(raw=message["headers"])
                added = {name: text for name, text in HEADERS.items() if name not in present}
                if "cache-control" not in present:
                    added["Cache-Control"] = "private, no-cache"
                message["headers"] += [(name.lower().encode(), text.encode()) for name, text in added.items()]
            await send(message)

        await self._app(connection, receive, send_with_headers)


def _status_of(error: Exception) -> tuple[int, str, Mapping[str, str] | None]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail, error.headers
    if isinstance(error, LookupError):
        # Its text is ours; that of a KeyError would be a quoted key.
        return 404, str(error) if not isinstance(error, KeyError) else "not found", None
    if isinstance(error, StoreFailed):
        return 503, "the store does not answer", {"Retry-After": "10"}
    if isinstance(error, BadInput):
        if str(error).startswith("cannot read the store"):
            return 503, "the store does not answer", {"Retry-After": "10"}
        return 400, redact(str(error)), None
    return 500, "this is a fault of the server; its log has the reason", None


def _login_form(problem: str) -> Page:
    form = Form("login/", "sign in", [Filter("token", "token (empty: sign out)", "")])
    return Page("Sign in", "login/", [Lines([problem] if problem else [], "warning"), form])


def _html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, headers, media_type="text/html; charset=utf-8")


def _query(request: Request) -> dict[str, str]:
    """The last value of each name; a null character cannot be in a database."""
    if len(request.url.query) > LONGEST_QUERY:
        raise HTTPException(414, f"an address has at most {LONGEST_QUERY} characters of filters")
    query = dict(request.query_params)
    for name, text in query.items():
        if not text.isprintable():
            raise BadInput(f"{name} has a character that no name has")
    return query


def _form(data: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise BadInput(f"the form cannot be read: {error}") from None


def _require_own_origin(request: Request) -> None:
    """A form of another site is refused. Browsers name the origin of every form that is sent."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    if urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, "this form was sent by another site")
