"""What is measured, what cannot be, and what fails: every workload on every rung, with the reasons."""

from collections import Counter
from typing import Any

from tare.report.numbers import several
from tare.site.page import Lines, Page, Part
from tare.site.pages.common import Query, chosen_filters, filters, labels_of, status_word
from tare.site.questions import Scope, coverage
from tare.site.tables import Column, DataTable

NAMES = ("machine", "mode")
REASONS = (
    Column("workload", "workload", "key", "workload_path"),
    Column("rung", "rung"),
    Column("status", "status", "word"),
    Column("series", "series", "count"),
    Column("reason", "reason", "text", "path"),
)


def coverage_page(scope: Scope, query: Query) -> Page:
    chosen = chosen_filters(query, NAMES)
    found = coverage(scope, chosen.get("machine", ""), chosen.get("mode", ""))
    rungs = sorted({row.rung for row in found}, key=lambda rung: (rung != "eager", rung))
    workloads: dict[str, dict[str, Counter[str]]] = {}
    for row in found:
        cells = workloads.setdefault(row.workload, {})
        cells.setdefault(row.rung, Counter())[status_word(row)] += row.series
    table = DataTable(
        "coverage",
        [Column("workload", "workload", "key", "path"), *(Column(rung, rung, "word") for rung in rungs)],
        [
            {
                "workload": name,
                "path": f"workloads/{name}/",
                **{rung: ", ".join(cells[rung]) if rung in cells else None for rung in rungs},
            }
            for name, cells in workloads.items()
        ],
        empty="nothing is measured",
    )
    reasons: list[dict[str, Any]] = [
        {
            "workload": row.workload,
            "workload_path": f"workloads/{row.workload}/",
            "rung": row.rung,
            "status": status_word(row),
            "series": row.series,
            "reason": row.reason or row.status,
            "path": f"records/{row.record}/",
        }
        for row in found
        if row.status != "ok" or row.parity != "same"
    ]
    words = Counter({status_word(row): 0 for row in found})
    for row in found:
        words[status_word(row)] += row.series
    summary = ", ".join(f"{count} {word}" for word, count in words.most_common())
    parts: list[Part] = [
        Lines([f"{several(len(workloads), 'workload')} on {several(len(rungs), 'rung')}: {summary}"]),
        table,
        DataTable(
            "reasons",
            REASONS,
            reasons,
            "Why not",
            "The newest record of each; a page of a run has what it skipped.",
        ),
    ]
    return Page("Coverage", "coverage/", parts, filters=filters(scope, query, NAMES, labels_of(scope)))
