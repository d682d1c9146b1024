"""A line a record: gross, memory and status of many workloads at a glance, for a whole group and for documents."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tare.records.figures import device_peak, gross, host_peak, latency
from tare.records.record import Record
from tare.report.fitting import Cell, FittingTable
from tare.report.ladder import make_ladders
from tare.report.numbers import duration, short_size
from tare.report.terminal import PARITY, STYLE, where
from tare.system.printable import one_line

# Fields of a case that become a column where the records differ in them, and part of the title where not.
SHARED = ("mode", "rung", "device", "precision")
HEADS = ("workload", *SHARED, "sizes", "batch", "gross", "latency", "host", "device memory", "status")
LEFT = ("workload", *SHARED, "sizes", "status")
FOLDED = {"workload": 0, "rung": 0, "sizes": 12}
# What goes first where the terminal is narrow: figures, before what tells one record from another.
SPARE = ("host", "device memory", "latency", "precision", "device", "mode", "sizes", "batch")


def table_cells(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, without the columns that say the same, or nothing, in every row."""
    telling = _telling_sizes(records)
    rows = [_row(record, telling[record.case.workload]) for record in records]
    kept = [
        i
        for i, head in enumerate(HEADS)
        if (len({row[i] for row in rows}) > 1 if head in SHARED else any(row[i] != "-" for row in rows))
    ]
    return [HEADS[i] for i in kept], [[row[i] for i in kept] for row in rows]


def table_title(records: Sequence[Record]) -> str:
    """What all the records share."""
    shared = []
    for name in SHARED:
        values = {str(getattr(record.case, name)) for record in records}
        if len(values) == 1:
            shared.append(values.pop())
    good = sum(record.ok for record in records)
    return " · ".join((*shared, f"{good} of {len(records)} measured"))


def table_places(records: Sequence[Record]) -> list[str]:
    """The machines and software the records come from."""
    return list(dict.fromkeys(where(ladder) for ladder in make_ladders(records)))


def failure_lines(records: Sequence[Record]) -> list[str]:
    return [
        f"{r.case.workload} on {r.case.rung} ({r.case.mode}): {r.failure.cause} in {r.failure.stage or 'start'}: "
        f"{one_line(r.failure.message)}"
        for r in records
        if r.failure
    ]


def table_view(records: Sequence[Record]) -> RenderableType:
    heads, rows = table_cells(records)
    parts: list[RenderableType] = [Text(table_title(records), style="bold")]
    parts += [Text(place, style="dim") for place in table_places(records)]
    lines: list[list[Cell]] = [[*row[:-1], Text(row[-1], style=STYLE.get(row[-1].lower(), "red"))] for row in rows]
    right = [head for head in heads if head not in LEFT]
    parts.append(FittingTable(heads, lines, right=right, folds=FOLDED, spare=SPARE, paddings=(1,)))
    parts += [Text(f"  {line}", style="red") for line in failure_lines(records)]
    return Group(*parts)


def _telling_sizes(records: Sequence[Record]) -> dict[str, list[str]]:
    """By workload, the sizes in which its records differ."""
    seen: dict[str, dict[str, set[object]]] = {}
    for record in records:
        values = seen.setdefault(record.case.workload, {})
        for name, value in record.case.sizes.items():
            values.setdefault(name, set()).add(value)
    return {workload: [n for n, found in values.items() if len(found) > 1] for workload, values in seen.items()}


def _row(record: Record, telling: Sequence[str]) -> list[str]:
    case = record.case
    step, delay = gross(record), latency(record)
    return [
        case.workload,
        *(str(getattr(case, name)) for name in SHARED),
        " ".join(f"{name}={case.sizes[name]}" for name in telling if name in case.sizes) or "-",
        str(case.batch),
        duration(step) if step and record.ok else "-",
        duration(delay._replace(sound=False)) if delay and record.ok else "-",
        short_size(host_peak(record)),
        short_size(device_peak(record)),
        record.failure.cause if record.failure else PARITY[record.parity.status],
    ]
