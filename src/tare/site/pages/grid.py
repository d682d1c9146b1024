"""Workload by rung by machine: one figure of the newest records, with the filters in the address."""

from typing import Any

from tare.site.page import Filter, Page
from tare.site.pages.common import (
    Query,
    chosen_filters,
    filters,
    labels_of,
    ladder_title,
    portion,
    status_word,
)
from tare.site.questions import Scope, ladder_keys, rows_of_ladders
from tare.site.tables import Column, DataTable, Kind

NAMES = ("machine", "mode", "device", "precision", "rung", "status")
# What a cell may show, by the column of a series.
FIGURES: dict[str, tuple[str, Kind]] = {
    "gross": ("gross", "seconds"),
    "speedup": ("times as fast as eager", "x"),
    "net": ("net", "seconds"),
    "tare": ("tare as a share of gross", "share"),
    "latency": ("latency", "seconds"),
    "host_bytes": ("host memory", "bytes"),
    "device_bytes": ("device memory", "bytes"),
    "status": ("how it ended", "word"),
}


def grid_page(scope: Scope, query: Query) -> Page:
    """Without a machine in the address, the one that measured last."""
    labels = labels_of(scope)
    chosen = chosen_filters(query, NAMES)
    if "machine" not in query and labels:
        chosen["machine"] = next(iter(labels))
    figure = query.get("figure", "gross")
    figure = figure if figure in FIGURES else "gross"
    contains, part = query.get("q", ""), portion(query)
    keys = ladder_keys(scope, chosen, contains, part.limit, part.offset)
    more = part.more("grid/", query, keys)
    others = {name: value for name, value in chosen.items() if name != "machine"}
    found = rows_of_ladders(scope, part.of(keys), others)
    ladders: dict[tuple[str, str], dict[str, Any]] = {key: {} for key in part.of(keys)}
    for row in found:
        ladders[row.ladder, row.machine][row.rung] = row
    rungs = sorted({row.rung for row in found}, key=lambda rung: (rung != "eager", rung))
    title, kind = FIGURES[figure]
    columns = [Column("workload", "workload", "key", "path"), Column("settings", "settings", "key")]
    if not chosen.get("machine"):
        columns.append(Column("machine", "machine"))
    columns += [Column(rung, rung, kind, f"{rung} path") for rung in rungs]
    rows = [
        {
            "workload": key.partition("/")[0],
            "settings": ladder_title(key),
            "machine": labels.get(machine, machine),
            "path": f"ladders/{next(iter(cells.values())).id}/",
            **{rung: _figure(cells, rung, figure) for rung in rungs},
            **{f"{rung} path": f"series/{cells[rung].id}/" if rung in cells else "" for rung in rungs},
        }
        for (key, machine), cells in ladders.items()
        if cells
    ]
    table = DataTable("grid", columns, rows, note=f"{title}, of the newest record of each", empty="nothing fits")
    choices = [
        Filter("figure", "show", figure, [(name, text) for name, (text, _) in FIGURES.items()]),
        Filter("q", "workload contains", contains),
        *filters(scope, {**query, **chosen}, NAMES, labels),
    ]
    return Page("Grid", "grid/", [table], filters=choices, more=more)


def _figure(cells: dict[str, Any], rung: str, figure: str) -> Any:
    row = cells.get(rung)
    if row is None:
        return None
    if figure == "status":
        return status_word(row)
    if row.status != "ok" or row.parity in ("different", "nan"):
        return None
    if figure == "speedup":
        eager = cells.get("eager")
        return eager.gross / row.gross if eager is not None and eager.gross and row.gross else None
    if figure == "tare":
        return 1 - row.net / row.gross if row.net is not None and row.gross else None
    return getattr(row, figure)
