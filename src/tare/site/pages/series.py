"""One series over time: its points, where it changed, and with which versions."""

from tare.cases.case import Case
from tare.guard.metrics import get_metric
from tare.guard.regressions import COLUMNS as METRIC_COLUMNS
from tare.report.numbers import change_text
from tare.report.page import PageChart
from tare.report.web.figures import run_command
from tare.site.page import Filter, Lines, Page, PageLink, Part, ShownCommand
from tare.site.pages.common import Query, labels_of, ladder_title, number
from tare.site.pages.regressions import COLUMNS as REGRESSION_COLUMNS
from tare.site.pages.regressions import regression_rows
from tare.site.questions import Scope, one_series, points_of, regressions
from tare.site.tables import Column, DataTable, Kind
from tare.stats.changepoints import find_change_points, shortest_segment

# A search for change points of more takes longer than a reader waits.
USUAL, MOST = 400, 2000
UNITS: dict[str, Kind] = {"s": "seconds", "B": "bytes"}


def series_page(scope: Scope, id_: str, query: Query) -> Page:
    row = one_series(scope, id_)
    if row is None:
        raise LookupError(f"there is no series {id_[:40]}")
    name = query.get("metric", "gross")
    name = name if name in METRIC_COLUMNS else "gross"
    metric, column = get_metric(name), METRIC_COLUMNS[name]
    limit = number(query, "points", USUAL, MOST)
    rows = points_of(scope, id_, limit)
    good = [
        each
        for each in rows
        if each.status == "ok" and each.parity not in ("different", "nan") and (getattr(each, column) or 0) > 0
    ]
    values = [getattr(each, column) for each in good]
    changes = []
    if len(values) >= 2 * shortest_segment(len(values)):
        changes = find_change_points(values).change_points
    bounds = ("gross_low", "gross_high") if name == "gross" else ("", "")
    figure = {
        "kind": "history",
        "title": metric.title,
        "unit": metric.unit,
        "points": [
            {
                "at": each.created,
                "value": getattr(each, column),
                "low": getattr(each, bounds[0], None),
                "high": getattr(each, bounds[1], None),
                "label": " ".join(filter(None, (each.commit[:10], f"torch {each.torch}" if each.torch else ""))),
                "path": f"records/{each.id}/",
            }
            for each in good
        ],
        "changes": [
            {
                "from": good[change.earliest - 1].created,
                "until": good[change.latest].created,
                "text": change_text(change.ratio.mid),
                "worse": change.after > change.before,
            }
            for change in changes
        ],
    }
    labels = labels_of(scope)
    subtitle = f"{len(good)} of {row.points} points on {labels.get(row.machine, row.machine)}"
    parts: list[Part] = [
        [PageLink("its ladder", f"ladders/{id_}/"), PageLink("its newest record", f"records/{row.record}/")]
    ]
    if good:
        parts.append(PageChart("history", "", subtitle, figure))
        if command := run_command(Case.parse(row.family), row.rounds):
            parts.append(ShownCommand("measure again", command))
    else:
        parts.append(Lines([f"no record has a {metric.title}: {row.reason or row.status}"], "warning"))
    slower = regression_rows(scope, regressions(scope, series=id_))
    parts.append(
        DataTable("regressions", REGRESSION_COLUMNS, slower, "What got slower", empty="nothing got slower")
    )
    columns = (
        Column("created", "measured", "moment", "path"),
        Column(column, metric.name, UNITS.get(metric.unit, "text")),
        Column("rounds", "rounds", "count"),
        Column("parity", "parity", "word"),
        Column("status", "status", "word"),
        Column("commit", "commit", "text", "commit_address"),
        Column("branch", "branch"),
        Column("torch", "torch"),
    )
    points = [
        {
            **{each_column: getattr(each, each_column) for each_column in ("created", column, "rounds", "parity")},
            **{each_column: getattr(each, each_column) or None for each_column in ("status", "branch", "torch")},
            "commit": each.commit[:10] or None,
            "commit_address": scope.commit_address(each.commit),
            "record": each.id,
            "path": f"records/{each.id}/",
        }
        for each in reversed(rows)
    ]
    parts.append(DataTable("points", columns, points, "Points"))
    choices = (
        Filter("metric", "metric", name, [(each, get_metric(each).title) for each in METRIC_COLUMNS]),
        Filter("points", "points", str(limit), [(str(count), str(count)) for count in (100, USUAL, MOST)]),
    )
    crumbs = [PageLink("workloads", "workloads/"), PageLink(row.workload, f"workloads/{row.workload}/")]
    title = f"{row.workload} on {row.rung}: {ladder_title(row.ladder)}"
    return Page(title, f"series/{id_}/", parts, crumbs=crumbs, filters=choices)
