"""The machines, and one machine with what it is made of and what it has measured."""

from typing import Any

from tare.report.view import View
from tare.site.page import Page, PageLink, Part
from tare.site.pages.common import FIGURE_COLUMNS, Query, ladder_title, portion, status_word
from tare.site.questions import Scope, machines, series_rows
from tare.site.tables import Column, DataTable
from tare.store import schema

LIST = (
    Column("label", "machine", "key", "path"),
    Column("workloads", "workloads", "count"),
    Column("series", "series", "count"),
    Column("records", "records", "count"),
    Column("first", "first", "moment"),
    Column("last", "newest", "moment"),
    Column("compare", "beside the newest", "text", "compare_path"),
)
SERIES = (
    Column("workload", "workload", "key", "workload_path"),
    Column("rung", "rung", "text", "path"),
    Column("settings", "settings", "key"),
    Column("status", "status", "word"),
    *FIGURE_COLUMNS,
    Column("last", "newest", "moment"),
)


def list_page(scope: Scope) -> Page:
    rows: list[dict[str, Any]] = []
    for row in machines(scope):
        facts = {name: getattr(row, name) for name in ("id", "label", "facts", "workloads", "series", "records")}
        facts |= {"first": row.first, "last": row.last, "path": f"machines/{row.id}/"}
        if rows:
            facts |= {
                "compare": "compare",
                "compare_path": f"compare/?a=machine:{rows[0]['id']}&b=machine:{row.id}",
            }
        rows.append(facts)
    return Page("Machines", "machines/", [DataTable("machines", LIST, rows, empty="no machine")])


def machine_page(scope: Scope, id_: str, query: Query) -> Page:
    found = next((row for row in machines(scope) if row.id == id_), None)
    if found is None:
        raise LookupError(f"there is no machine {id_[:40]}")
    part = portion(query)
    measured = series_rows(scope, {"machine": id_}, limit=part.limit, offset=part.offset)
    rows = [
        {
            **{name: getattr(row, name) for name in ("workload", "rung", "rounds", "parity", "last")},
            **{name: getattr(row, name) for name in schema.FIGURES},
            "settings": ladder_title(row.ladder),
            "status": status_word(row),
            "path": f"series/{row.id}/",
            "workload_path": f"workloads/{row.workload}/",
        }
        for row in part.of(measured)
    ]
    parts: list[Part] = [View().facts(found.facts), DataTable("series", SERIES, rows, "What it has measured")]
    path = f"machines/{id_}/"
    more = part.more(path, query, measured)
    return Page(found.label, path, parts, crumbs=[PageLink("machines", "machines/")], more=more)
