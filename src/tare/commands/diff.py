"""Two records or two traces side by side. The CLI calls it."""

from pathlib import Path
from typing import Any

import msgspec

from tare.commands.explained import SAME
from tare.commands.records import find_records, no_record
from tare.commands.traces import is_trace
from tare.errors import BadInput
from tare.findings.context import Context
from tare.findings.trace_diff import TraceDiff, diff_traces
from tare.records.changes import RecordChanges, record_changes
from tare.records.record import Record
from tare.system.home import trace_paths
from tare.trace.metadata import device_name, recorded_gross
from tare.trace.read import read
from tare.trace.windows import select_steps


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """`records` for two records, `trace` for two traces, and for two records of which both kept one."""

    records: RecordChanges | None = None
    trace: TraceDiff | None = None
    notes: list[str] = []

    def document(self) -> dict[str, Any]:
        return {"records": self.records, "trace": self.trace, "notes": self.notes}


def diff(before: str, after: str, store: str | None) -> Diff:
    kinds = [is_trace(term) for term in (before, after)]
    if all(kinds):
        contexts = [_context(Path(term), None) for term in (before, after)]
        places = [_place(context) for context in contexts]
        differ = places[0] != places[1]
        notes = [f"not the same device: A ran on {places[0]}, B on {places[1]}"] if differ else []
        return Diff(trace=diff_traces(contexts[0], contexts[1]), notes=notes)
    if any(kinds):
        record = before if kinds[1] else after
        raise BadInput(f"a trace and a record cannot be compared: {record} is no trace")
    one, other = (_record(term, store) for term in (before, after))
    kept = [trace_paths(record.id)[0] for record in (one, other)]
    troubles = [trouble for record in (one, other) if (trouble := _trouble(record))]
    missing = [
        f"no trace is kept of {record.case.key}: tare explain records one"
        for record, path in zip((one, other), kept, strict=True)
        if not path.exists() and not record.failure
    ]
    found = record_changes(one, other)
    if missing or any(record.failure for record in (one, other)):
        return Diff(records=found, notes=troubles + missing)
    times = [next((f for f in found.figures if f.name == "gross"), None)] * 2
    grosses = (times[0].before if times[0] else None, times[1].after if times[1] else None)
    traces = diff_traces(_context(kept[0], grosses[0]), _context(kept[1], grosses[1]))
    return Diff(records=found, trace=traces, notes=troubles)


def _trouble(record: Record) -> str:
    """Why the figures of a record are none to compare."""
    if record.failure:
        return f"{record.id} failed: {record.failure.cause}: {record.failure.message}"
    if record.parity.status not in SAME:
        return f"{record.id} computes something else ({record.parity.status}): its times are not comparable"
    return ""


def _context(path: Path, gross_s: float | None) -> Context:
    trace = select_steps(read(path))
    recorded = recorded_gross(trace)
    return Context(trace, gross_s or (recorded / 1e9 if recorded else None))


def _place(context: Context) -> str:
    if not context.trace.has_device:
        return "the host alone"
    return device_name(context.trace) or "a device without a name"


def _record(term: str, store: str | None) -> Record:
    found = find_records([term], store, latest=True)
    if not found:
        raise no_record([term])
    if len(found) > 1:
        raise BadInput(f"{term} matches {len(found)} records; name one by its id or key (tare list records)")
    return found[0]
