"""Pages of HTML that need nothing beside themselves: no font, no link, and no script to be read."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from tare.report.view import WORD_STYLES, View

if TYPE_CHECKING:
    from jinja2 import Environment


class PageChart(NamedTuple):
    """What the script of the pages draws: the data of a figure, which holds its kind."""

    id: str
    title: str
    subtitle: str
    figure: Mapping[str, Any]


class PageTree(NamedTuple):
    """Rows that can be opened: each with its cells, its share of the whole (0 to 1) and its own rows."""

    title: str
    heads: Sequence[str]
    rows: "Sequence[TreeRow]"


class TreeRow(NamedTuple):
    name: str
    cells: Sequence[str]
    share: float
    rows: "Sequence[TreeRow]" = ()


PagePart = View | PageChart | PageTree


def render_page(title: str, *parts: PagePart) -> str:
    charts = [part for part in parts if isinstance(part, PageChart)]
    return render(
        "page.html",
        sections=[(type(part).__name__, part) for part in parts],
        title=title,
        figure_data=figure_data(charts),
        plotly=web_file("plotly-cartesian.min.js") if charts else "",
        script=web_file("page.js"),
    )


def render_fragment(view: View) -> str:
    """A part of a page, as a notebook shows it under a cell."""
    return render("fragment.html", parts=view.parts)


def figure_data(charts: Sequence[PageChart]) -> str:
    """JSON for a script element, which no text in a record or a trace can end."""
    figures = [{**chart.figure, "id": chart.id} for chart in charts]
    return json.dumps(figures).replace("<", "\\u003c") if figures else ""


def web_file(name: str) -> str:
    return files("tare.report.web").joinpath(name).read_text(encoding="utf-8")


def render(template: str, **variables: Any) -> str:
    """Every text is escaped by the template, except for charts, which escape their texts themselves."""
    return page_environment().get_template(template).render(styles=WORD_STYLES, **variables)


@cache
def page_environment(*packages: str) -> "Environment":
    """The templates of reports, after those of other packages; and the style of all pages."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [*map(PackageLoader, packages), PackageLoader("tare.report"), PackageLoader("tare.report", "web")]
    return Environment(
        loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
