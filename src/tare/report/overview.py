"""The records of a run at a glance: ladders where they are few, a line per record where they are many, suites; and
what a run would measure, skipped and took from the store."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.records.record import Record
from tare.report.ladder import (
    ON_REQUEST,
    known_columns,
    ladder_view,
    make_ladders,
    make_row,
    row_cells,
    sizes,
    spare_columns,
    title,
    where,
)
from tare.report.numbers import age, several
from tare.report.suite import make_suites, suite_view
from tare.report.view import FittingTable, View

# More ladders than this are shown as a table. `tare show WORKLOAD` still shows each.
MOST_LADDERS = 8
# Fields of a case that become a column where the records differ in them, and part of the title otherwise.
SHARED = ("mode", "rung", "device", "precision")
# Dropped first on a narrow terminal: figures, before what tells records apart.
SPARE = ("host", "device memory", "latency", "precision", "device", "mode", "sizes", "batch")


def overview(
    records: Sequence[Record],
    skipped: Sequence[Skip] = (),
    table: bool | None = None,
    columns: Sequence[str] | None = (),
) -> View:
    """`table` asks for the table however few the records are, or for ladders however many. `columns` are shown
    besides the usual ones (tare.report.ladder.ladder_view)."""
    ladders = make_ladders(records)
    if records and (len(ladders) > MOST_LADDERS if table is None else table):
        views = [table_view(records, columns)]
    else:
        views = [ladder_view(ladder, columns) for ladder in ladders]
    return View().show(*views, *(suite_view(suite) for suite in make_suites(records, skipped)))


class ReusedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a plan's cases were taken from the store, how many of those failed, and when the oldest was
    measured. The age is unknown where an imported record does not say when it was made."""

    taken: int
    planned: int
    failed: int = 0
    oldest: str | None = None
    oldest_age_s: float | None = None


def reused_line(reused: ReusedRecords) -> str:
    line = f"{reused.taken} of {several(reused.planned, 'case')} taken from the store"
    if reused.oldest:
        when = reused.oldest if reused.oldest_age_s is None else f"{age(reused.oldest_age_s)} ago"
        line += f"; the oldest was measured {when}"
    return f"{line}; {several(reused.failed, 'failure')} among them" if reused.failed else line


def planned_view(ladder: Sequence[Case], batch: str = "") -> View:
    """A ladder that has not been measured: what it is of, and its rungs."""
    return View(title(ladder[0], batch)).add("item", ", ".join(case.rung for case in ladder))


def skipped_view(skipped: Iterable[Skip], by_default: Mapping[str, str] | None = None) -> View:
    """What a run does not measure: skipped cases by reason, and rungs that a ladder holds only if named."""
    rungs: dict[str, list[str]] = {}
    for skip in skipped:
        rungs.setdefault(f"{skip.cause}: {skip.reason}", []).append(skip.key.split("/")[1])
    view = View().add("faint", f"{sum(map(len, rungs.values()))} skipped" if rungs else "")
    view.add("aside", *(f"{', '.join(sorted(set(names)))}: {reason}" for reason, names in rungs.items()))
    unnamed: dict[str, list[str]] = {}
    for name, reason in (by_default or {}).items():
        unnamed.setdefault(reason, []).append(name)
    for reason, names in unnamed.items():
        # A rung stands for its variants.
        shown = [name for name in names if ":" not in name or name.partition(":")[0] not in names]
        view.add("aside", f"{', '.join(shown)} skipped: {reason}")
    return view


def table_view(records: Sequence[Record], columns: Sequence[str] | None = ()) -> View:
    """A line per record. What all of them share is in the title, with how many were measured."""
    values = [{str(getattr(record.case, name)) for record in records} for name in SHARED]
    shared = [value.pop() for value in values if len(value) == 1]
    measured = f"{sum(record.ok for record in records)} of {len(records)} measured"
    view = View(" · ".join((*shared, measured)))
    view.add("faint", *dict.fromkeys(where(ladder) for ladder in make_ladders(records)))
    folds = {"workload": 0, "rung": 0, "sizes": 12}
    rows = table_rows(records, columns)
    view.put(FittingTable(rows, words=(*SHARED, "status"), folds=folds, spare=spare_columns(SPARE, columns)))
    return view.add("failure", *failure_lines(records))


def failure_lines(records: Sequence[Record]) -> list[str]:
    return [
        f"{r.case.workload} on {r.case.rung} ({r.case.mode}): {r.failure.cause} in {r.failure.stage or 'start'}: "
        f"{r.failure.message}"
        for r in records
        if r.failure
    ]


def table_rows(records: Sequence[Record], columns: Sequence[str] | None = ()) -> list[dict[str, str]]:
    """Without the columns that hold the same in every row, or nothing."""
    varying = _varying_sizes(records)
    rows = [_row(record, varying[record.case.workload], columns) for record in records]
    same = [name for name in SHARED if len({row[name] for row in rows}) == 1]
    rows = [{name: cell for name, cell in row.items() if name not in same} for row in rows]
    return known_columns(rows, columns or ())


def _varying_sizes(records: Sequence[Record]) -> dict[str, list[str]]:
    """By workload, the names of the sizes in which its records differ."""
    values: dict[str, dict[str, set[object]]] = {}
    for record in records:
        by_name = values.setdefault(record.case.workload, {})
        for name, value in record.case.sizes.items():
            by_name.setdefault(name, set()).add(value)
    return {workload: [n for n, seen in by_name.items() if len(seen) > 1] for workload, by_name in values.items()}


def _row(record: Record, varying: Sequence[str], columns: Sequence[str] | None) -> dict[str, str]:
    case, cells = record.case, row_cells(make_row(record))
    # The device of the case and the device's memory would have the same name.
    wanted = [name for name in (ON_REQUEST if columns is None else columns) if name != "device"]
    return {
        "workload": case.workload,
        **{name: str(getattr(case, name)) for name in SHARED},
        "sizes": sizes({name: case.sizes[name] for name in varying if name in case.sizes}) or "-",
        "batch": str(case.batch),
        "gross": cells["gross"] if record.ok else "-",
        "latency": cells["latency"] if record.ok else "-",
        "host": cells["host"],
        "device memory": cells["device"],
        **{name: cells[name] if record.ok else "-" for name in wanted},
        "status": record.failure.cause if record.failure else cells["parity"],
    }
