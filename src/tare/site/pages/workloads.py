"""The workloads, each with its ladders; and one ladder with its chart, its waterfalls and its findings."""

from typing import Any

import msgspec

from tare.errors import BadInput
from tare.findings.explained import ExplainedRecord, decode_explained
from tare.records.record import Record
from tare.report.explain import explanation_view
from tare.report.findings import findings_view
from tare.report.ladder import ladder_view, make_ladders
from tare.report.page import PageChart
from tare.report.web.figures import command_of, family_figure, make_families
from tare.site.page import Filter, Page, PageLink, Part, ShownCommand
from tare.site.pages.common import FIGURE_COLUMNS, Query, labels_of, ladder_title, status_word
from tare.site.pages.regressions import COLUMNS as REGRESSION_COLUMNS
from tare.site.pages.regressions import regression_rows
from tare.site.questions import Scope, one_series, regressions, series_of_ladder, series_rows, workloads
from tare.site.tables import Column, DataTable
from tare.store import schema
from tare.store.explanations import find_explanation

LIST = (
    Column("workload", "workload", "key", "path"),
    Column("rungs", "rungs", "count"),
    Column("machines", "machines", "count"),
    Column("series", "series", "count"),
    Column("records", "records", "count"),
    Column("last", "newest", "moment"),
)
LADDERS = (
    Column("ladder", "ladder", "key", "path"),
    Column("machine", "machine"),
    Column("rungs", "rungs", "count"),
    Column("best", "fastest rung"),
    Column("gross", "its gross", "seconds"),
    Column("speedup", "x eager", "x"),
    Column("last", "newest", "moment"),
)
SERIES = (
    Column("rung", "rung", "text", "path"),
    Column("status", "status", "word"),
    *FIGURE_COLUMNS,
    Column("last", "newest", "moment"),
    Column("points", "points", "count"),
    Column("reason", "why not"),
)
# Beside these statuses of parity no time is compared.
COMPARABLE = ("same", "unchecked")


def list_page(scope: Scope, query: Query) -> Page:
    contains = query.get("q", "")
    rows = [{**row._mapping, "path": f"workloads/{row.workload}/"} for row in workloads(scope, contains)]
    table = DataTable("workloads", LIST, rows, empty="no workload fits")
    return Page("Workloads", "workloads/", [table], filters=[Filter("q", "contains", contains)])


def workload_page(scope: Scope, name: str) -> Page:
    rows = series_rows(scope, {"workload": name})
    if not rows:
        raise LookupError(f"there is no workload {name[:80]} in this store")
    labels = labels_of(scope)
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((row.ladder, row.machine, row.project), []).append(row)
    ladders = [_ladder_row(group, labels) for group in groups.values()]
    ladders.sort(key=lambda ladder: str(ladder["last"]), reverse=True)
    parts: list[Part] = [DataTable("ladders", LADDERS, ladders)]
    if len(groups) == 1:
        parts = list(ladder_parts(scope, rows[0]))
    slower = regression_rows(scope, regressions(scope, workload=name, limit=20))
    parts.append(
        DataTable("regressions", REGRESSION_COLUMNS, slower, "What got slower", empty="nothing got slower")
    )
    return Page(name, f"workloads/{name}/", parts, crumbs=[PageLink("workloads", "workloads/")])


def _ladder_row(group: list[Any], labels: dict[str, str]) -> dict[str, Any]:
    compared = [row for row in group if row.gross and row.parity in COMPARABLE]
    best = min(compared, key=lambda row: row.gross, default=None)
    eager = next((row for row in compared if row.rung == "eager"), None)
    return {
        "ladder": ladder_title(group[0].ladder),
        "path": f"ladders/{group[0].id}/",
        "machine": labels.get(group[0].machine, group[0].machine),
        "rungs": len(group),
        "best": best.rung if best else None,
        "gross": best.gross if best else None,
        "speedup": eager.gross / best.gross if best and eager and best is not eager else None,
        "last": max(row.last for row in group),
    }


def ladder_page(scope: Scope, id_: str) -> Page:
    row = one_series(scope, id_)
    if row is None:
        raise LookupError(f"there is no ladder {id_[:40]}")
    crumbs = [PageLink("workloads", "workloads/"), PageLink(row.workload, f"workloads/{row.workload}/")]
    title = f"{row.workload}: {ladder_title(row.ladder)}"
    return Page(title, f"ladders/{id_}/", ladder_parts(scope, row), crumbs=crumbs)


def ladder_parts(scope: Scope, row: Any) -> list[Part]:
    """The newest record of every rung, the chart of them, and what was explained."""
    series = series_of_ladder(scope, row)
    records = scope.store.find(schema.records.c.id.in_([each.record for each in series]))
    parts: list[Part] = []
    ladders = make_ladders(records)
    for number, family in enumerate(make_families(ladders)):
        figure = family_figure(family, number)
        if figure.points:
            parts.append(PageChart(figure.id, "", figure.subtitle, msgspec.to_builtins(figure)))
        if command := command_of(family):
            parts.append(ShownCommand("measure again", command))
    parts += [ladder_view(ladder) for ladder in ladders]
    rows = [
        {
            **{name: getattr(each, name) for name in ("rung", "points", "last", "parity", "rounds", "reason")},
            **{name: getattr(each, name) for name in schema.FIGURES},
            "status": status_word(each),
            "path": f"series/{each.id}/",
            "record": each.record,
        }
        for each in series
    ]
    parts.append(DataTable("rungs", SERIES, rows, "Over time"))
    for record in records:
        parts += explained_parts(scope, record)
    return parts


def explained_parts(scope: Scope, record: Record) -> list[Part]:
    """The waterfall and the findings of a record, where tare explain has kept them."""
    explained = find_explained(scope, record.id)
    if explained is None:
        return []
    return [explanation_view(explained.explanation), findings_view(explained.diagnosis)]


def find_explained(scope: Scope, record: str) -> ExplainedRecord | None:
    document = find_explanation(scope.store, record)
    if document is None:
        return None
    try:
        return decode_explained(document, f"the explanation of {record}")
    except BadInput:
        # Of another version of tare: the page is shown without it.
        return None
