"""A page as HTML. Addresses are relative, so that the site works under any path and as files, but for those of
commits, which another site shows."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import PurePosixPath
from urllib.parse import quote

import tare
from tare.report.page import PageChart, figure_data, page_environment
from tare.report.view import WORD_STYLES
from tare.site.page import Page, PageLink
from tare.site.tables import is_word

NAVIGATION = (
    PageLink("what got slower", "regressions/"),
    PageLink("workloads", "workloads/"),
    PageLink("grid", "grid/"),
    PageLink("compare", "compare/"),
    PageLink("runs", "runs/"),
    PageLink("coverage", "coverage/"),
    PageLink("machines", "machines/"),
)
# The files under static/, by their names there.
STATIC: dict[str, tuple[str, str, str]] = {
    "page.css": ("tare.report", "web/page.css", "text/css"),
    "page.js": ("tare.report", "web/page.js", "text/javascript"),
    "plotly.js": ("tare.report", "web/plotly-cartesian.min.js", "text/javascript"),
    "site.css": ("tare.site", "static/site.css", "text/css"),
    "site.js": ("tare.site", "static/site.js", "text/javascript"),
}


def static_file(name: str) -> tuple[bytes, str]:
    """The content of a file and its type."""
    package, path, kind = STATIC[name]
    return files(package).joinpath(path).read_bytes(), kind


def page_html(
    page: Page, query: str = "", reader: str = "", may_write: bool = False, is_static: bool = False
) -> str:
    """`query` is that of the page's own address, which its files take over. As a file (`is_static`) a page names
    the files that it links, because no server looks for an index."""
    depth = page.path.count("/")

    def url(path: str) -> str:
        if path.startswith(("https://", "http://")):
            return path
        path, _, own = path.partition("?")
        target = "../" * depth + quote(path, safe="/:@")
        if is_static and (not target or target.endswith("/")):
            target += "index.html"
        return (target or "./") + (f"?{own}" if own else "")

    def file(path: str, with_query: bool = False) -> str:
        target = "../" * depth + quote(path, safe="/:@")
        return f"{target}?{query}" if with_query and query and not is_static else target

    charts = [part for part in page.parts if isinstance(part, PageChart)]
    charts = [chart._replace(figure=_with_addresses(dict(chart.figure), url)) for chart in charts]
    template = page_environment("tare.site").get_template("site.html")
    return template.render(
        page=page,
        kinds=[type(part).__name__ for part in page.parts],
        figure_data=figure_data(charts),
        navigation=NAVIGATION,
        url=url,
        file=file,
        is_word=is_word,
        styles=WORD_STYLES,
        version=tare.__version__,
        reader=reader,
        may_write=may_write,
        is_static=is_static,
    )


def _with_addresses(figure: dict[str, object], url: Callable[[str], str]) -> dict[str, object]:
    """Paths of pages become addresses that are relative to this page."""
    points = figure.get("points")
    if isinstance(points, list) and points and isinstance(points[0], dict) and "path" in points[0]:
        figure["points"] = [{**point, "path": url(point["path"])} for point in points]
    return figure


def file_of(path: str) -> PurePosixPath:
    """Where a static export writes a page."""
    return PurePosixPath(path) / "index.html"
