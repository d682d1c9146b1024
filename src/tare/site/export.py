"""The pages of a store as files, for people without a server. They are read in a browser as they are."""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
from starlette.routing import compile_path

from tare.errors import BadInput
from tare.records.codec import encode
from tare.report.page import PageChart
from tare.site.page import Page, PageLink
from tare.site.pages.common import MOST_ROWS
from tare.site.pages.records import find_record, find_stored_trace
from tare.site.questions import Scope
from tare.site.render import NAVIGATION, STATIC, file_of, page_html, static_file
from tare.site.server import PAGES
from tare.store.database import Store
from tare.system.home import make_folder

# Pages of a record and of a series are many; the others are written all.
MOST_PAGES = 20_000
RECORDS = "records/"
# There are no further parts of a table in files.
WHOLE = {"rows": str(MOST_ROWS)}


def export_site(
    store: Store, folder: Path, on_page: Callable[[int], None] = lambda _: None, commits: str = ""
) -> int:
    """Writes every page that can be reached without filters, into an empty or a new folder; returns how many."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is not an empty folder: name another for the pages")
    make_folder(folder / "static")
    for name in STATIC:
        (folder / "static" / name).write_bytes(static_file(name)[0])
    scope = Scope(store, commits=commits)
    waiting, known = deque(["", *(link.path for link in NAVIGATION)]), {""}
    known.update(waiting)
    written = 0
    while waiting:
        path = waiting.popleft()
        try:
            page = _page_of(scope, path)
        except LookupError:
            # A record that is named by another one may be gone.
            continue
        _write(scope, folder, path, page)
        written += 1
        on_page(1)
        for target in _paths_in(page):
            target = target.partition("?")[0]
            is_page = target.endswith("/") and "://" not in target
            if is_page and target not in known and len(known) < MOST_PAGES:
                known.add(target)
                waiting.append(target)
    return written


def _page_of(scope: Scope, path: str) -> Page:
    for pattern, page_of in PAGES.items():
        regex, _, _ = compile_path(pattern)
        if match := regex.match("/" + path):
            return page_of(scope, WHOLE, match.groupdict())
    raise LookupError(f"there is no page {path}")


def _write(scope: Scope, folder: Path, path: str, page: Page) -> None:
    target = folder / file_of(path)
    make_folder(target.parent)
    target.write_text(page_html(page, is_static=True), encoding="utf-8")
    (target.parent / "data.json").write_bytes(msgspec.json.encode(page.document))
    for table in page.tables:
        (target.parent / f"data-{quote(table.name)}.csv").write_text(table.csv, encoding="utf-8")
    if path.startswith(RECORDS):
        id_ = path.removeprefix(RECORDS).rstrip("/")
        (target.parent / "record.json").write_bytes(encode(find_record(scope, id_)))
        if (trace := find_stored_trace(scope, id_)) is not None:
            (target.parent / "trace.json.gz").write_bytes(trace)


def _paths_in(page: Page) -> Iterator[str]:
    yield from (crumb.path for crumb in page.crumbs)
    for table in page.tables:
        linked = [column.link for column in table.columns if column.link]
        yield from (str(row[name]) for row in table.rows for name in linked if row.get(name))
    for part in page.parts:
        if isinstance(part, PageChart):
            points = part.figure.get("points", [])
            yield from (point["path"] for point in points if isinstance(point, dict) and "path" in point)
        elif isinstance(part, list):
            yield from (link.path for link in part if isinstance(link, PageLink))
