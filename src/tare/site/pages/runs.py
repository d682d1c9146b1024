"""The runs, and one run with its records and with what it skipped, and why."""

from typing import Any

from tare.site.page import Page, PageLink, Part
from tare.site.pages.common import FIGURE_COLUMNS, Query, ladder_title, portion
from tare.site.questions import Scope, one_run, records_of_run, runs
from tare.site.tables import Column, DataTable
from tare.store import schema

RUNS = (
    Column("id", "run", "text", "path"),
    Column("created", "began", "moment"),
    Column("name", "plan", "key"),
    Column("kind", "kind"),
    Column("records", "records", "count"),
    Column("good", "measured", "count"),
    Column("skipped", "skipped", "count"),
    Column("state", "state", "word"),
)
RECORDS = (
    Column("workload", "workload", "key", "path"),
    Column("rung", "rung", "text", "series_path"),
    Column("settings", "settings", "key"),
    Column("status", "status", "word"),
    *FIGURE_COLUMNS,
    Column("commit", "commit", "text", "commit_address"),
)


def list_page(scope: Scope, query: Query) -> Page:
    part = portion(query)
    rows = runs(scope, part.limit, part.offset)
    table = DataTable("runs", RUNS, [_run(row) for row in part.of(rows)], empty="no run")
    return Page("Runs", "runs/", [table], more=part.more("runs/", query, rows))


def _run(row: Any) -> dict[str, Any]:
    kind = "a check's confirmation" if row.confirmation else "a check's baseline" if row.baseline_side else None
    return {
        "id": row.id,
        "path": f"runs/{row.id}/",
        "created": row.created,
        "name": row.name,
        "kind": kind,
        "records": row.records or 0,
        "good": int(row.good or 0),
        "skipped": len(row.skipped) or None,
        "state": "complete" if row.finished else "not complete",
    }


def run_page(scope: Scope, id_: str, query: Query) -> Page:
    part = portion(query)
    row, found = one_run(scope, id_), records_of_run(scope, id_, part.limit, part.offset)
    if row is None and not found:
        raise LookupError(f"there is no run {id_[:40]}")
    records = [
        {
            **{name: getattr(each, name) for name in ("workload", "rung", "mode", "status", "parity", "rounds")},
            **{name: getattr(each, name) for name in schema.FIGURES},
            "id": each.id,
            "key": each.key,
            "settings": ladder_title(each.family.replace(f"/{each.rung}/", "/*/", 1)),
            "commit": each.commit[:10] or None,
            "commit_address": scope.commit_address(each.commit),
            "path": f"records/{each.id}/",
            "series_path": f"series/{each.series}/" if each.series else "",
        }
        for each in part.of(found)
    ]
    parts: list[Part] = [DataTable("records", RECORDS, records)]
    skipped = row.skipped if row is not None else []
    if skipped:
        columns = (Column("key", "case", "key"), Column("cause", "cause", "word"), Column("reason", "reason"))
        parts.append(DataTable("skipped", columns, skipped, "Skipped, and why"))
    name = row.name if row is not None else "imported records"
    path = f"runs/{id_}/"
    more = part.more(path, query, found)
    return Page(f"Run {id_}: {name}", path, parts, crumbs=[PageLink("runs", "runs/")], more=more)
