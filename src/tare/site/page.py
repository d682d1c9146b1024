"""A page: its parts from top to bottom. It is shown as HTML; its tables are given as CSV and JSON too."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tare.report.page import PageChart
from tare.report.view import View
from tare.site.tables import DataTable


class Filter(NamedTuple):
    """A choice in the address of a page: its options are pairs of a value and what is shown for it. Without
    options it is a field for any text."""

    name: str
    label: str
    value: str
    options: Sequence[tuple[str, str]] = ()


class ShownCommand(NamedTuple):
    """A command that a reader may copy."""

    label: str
    text: str


class Form(NamedTuple):
    """What somebody with a token for writing may send to a path. The field `text` is large."""

    path: str
    button: str
    fields: Sequence[Filter]


class PageLink(NamedTuple):
    text: str
    path: str


class Lines(NamedTuple):
    """Sentences, each with a style of the report's views."""

    texts: Sequence[str]
    style: str = ""
    heading: str = ""


Part = DataTable | View | PageChart | ShownCommand | Form | Lines | Sequence[PageLink]


class Page(NamedTuple):
    """`path` is that of the page without the filters, `crumbs` lead to it. `more` is the path of the next part of
    a long table."""

    title: str
    path: str
    parts: Sequence[Part]
    crumbs: Sequence[PageLink] = ()
    filters: Sequence[Filter] = ()
    more: str = ""

    @property
    def tables(self) -> list[DataTable]:
        return [part for part in self.parts if isinstance(part, DataTable)]

    @property
    def document(self) -> dict[str, Any]:
        """Everything that the page shows as figures."""
        charts = [part for part in self.parts if isinstance(part, PageChart)]
        return {
            "title": self.title,
            "path": self.path,
            "tables": {table.name: [dict(row) for row in table.rows] for table in self.tables},
            "charts": {chart.id: dict(chart.figure) for chart in charts},
        }
