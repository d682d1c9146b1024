"""The records of a run at a glance: ladders where they are few, a line per record where they are many, suites."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tare.cases.plan import Skip
from tare.records.figures import device_peak, gross, host_peak, latency
from tare.records.record import Record
from tare.report.ladder import make_ladders
from tare.report.numbers import age, duration, several, short_size
from tare.report.suite import make_suites, suite_view
from tare.report.table import Cell, FittingTable
from tare.report.terminal import PARITY, STYLE, ladder_view, where
from tare.system.text import one_line

# More ladders than this are shown as a table. `tare show WORKLOAD` still shows each.
MOST_LADDERS = 8
# Fields of a case that become a column where the records differ in them, and part of the title otherwise.
SHARED = ("mode", "rung", "device", "precision")
HEADS = ("workload", *SHARED, "sizes", "batch", "gross", "latency", "host", "device memory", "status")
LEFT = ("workload", *SHARED, "sizes", "status")
FOLDED = {"workload": 0, "rung": 0, "sizes": 12}
# Dropped first on a narrow terminal: figures, before what tells records apart.
SPARE = ("host", "device memory", "latency", "precision", "device", "mode", "sizes", "batch")


def overview(
    records: Sequence[Record], skipped: Sequence[Skip] = (), table: bool = False
) -> Iterator[RenderableType]:
    """What to print, part by part. `table` asks for the table however few the records are."""
    ladders = make_ladders(records)
    if records and (table or len(ladders) > MOST_LADDERS):
        parts = [table_view(records)]
    else:
        parts = [ladder_view(ladder) for ladder in ladders]
    for part in (*parts, *(suite_view(suite) for suite in make_suites(records, skipped))):
        yield part
        yield Text("")


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


def table_view(records: Sequence[Record]) -> RenderableType:
    heads, rows = table_cells(records)
    parts: list[RenderableType] = [Text(table_title(records), style="bold")]
    parts += [Text(environment, style="dim") for environment in table_environments(records)]
    lines: list[list[Cell]] = [[*row[:-1], Text(row[-1], style=STYLE.get(row[-1].lower(), "red"))] for row in rows]
    right = [head for head in heads if head not in LEFT]
    parts.append(FittingTable(heads, lines, right=right, folds=FOLDED, spare=SPARE, paddings=(1,)))
    parts += [Text(f"  {line}", style="red") for line in failure_lines(records)]
    return Group(*parts)


def table_title(records: Sequence[Record]) -> str:
    """What all the records share, and how many were measured."""
    values = [{str(getattr(record.case, name)) for record in records} for name in SHARED]
    good = sum(record.ok for record in records)
    shared = [value.pop() for value in values if len(value) == 1]
    return " · ".join((*shared, f"{good} of {len(records)} measured"))


def table_environments(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(where(ladder) for ladder in make_ladders(records)))


def failure_lines(records: Sequence[Record]) -> list[str]:
    return [
        f"{r.case.workload} on {r.case.rung} ({r.case.mode}): {r.failure.cause} in {r.failure.stage or 'start'}: "
        f"{one_line(r.failure.message)}"
        for r in records
        if r.failure
    ]


def table_cells(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, without the columns that hold the same in every row, or nothing."""
    sizes = _varying_sizes(records)
    rows = [_row(record, sizes[record.case.workload]) for record in records]
    kept = [
        i
        for i, head in enumerate(HEADS)
        if (len({row[i] for row in rows}) > 1 if head in SHARED else any(row[i] != "-" for row in rows))
    ]
    return [HEADS[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _varying_sizes(records: Sequence[Record]) -> dict[str, list[str]]:
    """By workload, the names of the sizes in which its records differ."""
    values: dict[str, dict[str, set[object]]] = {}
    for record in records:
        by_name = values.setdefault(record.case.workload, {})
        for name, value in record.case.sizes.items():
            by_name.setdefault(name, set()).add(value)
    return {workload: [n for n, seen in by_name.items() if len(seen) > 1] for workload, by_name in values.items()}


def _row(record: Record, sizes: Sequence[str]) -> list[str]:
    case = record.case
    step, delay = gross(record), latency(record)
    return [
        case.workload,
        *(str(getattr(case, name)) for name in SHARED),
        " ".join(f"{name}={case.sizes[name]}" for name in sizes if name in case.sizes) or "-",
        str(case.batch),
        duration(step) if step and record.ok else "-",
        duration(delay._replace(sound=False)) if delay and record.ok else "-",
        short_size(host_peak(record)),
        short_size(device_peak(record)),
        record.failure.cause if record.failure else PARITY[record.parity.status],
    ]
