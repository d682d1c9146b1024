"""`tare diff`: two records or two traces side by side."""

from pathlib import Path

import msgspec

from tare.commands.records import find_records
from tare.commands.traces import is_trace, read_context
from tare.errors import BadInput
from tare.findings.context import Context
from tare.findings.trace_diff import TraceDiff, diff_traces
from tare.records.figures import RecordChanges, record_changes
from tare.records.record import COMPARABLE, Record
from tare.system.home import trace_paths
from tare.trace.metadata import device_name


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """`records` for two records, `trace` for two traces and for two records with kept traces."""

    records: RecordChanges | None = None
    trace: TraceDiff | None = None
    notes: list[str] = []


def diff(before: str, after: str, store: str | None) -> Diff:
    are_traces = [is_trace(term) for term in (before, after)]
    if all(are_traces):
        return _diff_traces(read_context(Path(before)), read_context(Path(after)))
    if any(are_traces):
        record = before if are_traces[1] else after
        raise BadInput(f"a trace and a record cannot be compared: {record} is no trace")
    return _diff_records(_record(before, store), _record(after, store))


def _diff_traces(before: Context, after: Context) -> Diff:
    devices = [_device(before), _device(after)]
    notes = [f"not the same device: A ran on {devices[0]}, B on {devices[1]}"] if devices[0] != devices[1] else []
    return Diff(trace=diff_traces(before, after), notes=notes)


def _diff_records(before: Record, after: Record) -> Diff:
    records, paths = (before, after), [trace_paths(record.id)[0] for record in (before, after)]
    notes = [note for record in records if (note := _not_comparable(record))]
    missing = [
        f"no trace is kept of {record.case.key}: tare explain records one"
        for record, path in zip(records, paths, strict=True)
        if not path.exists() and not record.failure
    ]
    changes = record_changes(before, after)
    if missing or before.failure or after.failure:
        return Diff(records=changes, notes=notes + missing)
    was, now = map(read_context, paths)
    return Diff(records=changes, trace=diff_traces(was, now), notes=notes)


def _not_comparable(record: Record) -> str:
    if record.failure:
        return f"{record.id} failed: {record.failure.cause}: {record.failure.message}"
    if record.parity.status not in COMPARABLE:
        return f"{record.id} computes something else ({record.parity.status}): its times are not comparable"
    return ""


def _device(context: Context) -> str:
    if not context.trace.has_device:
        return "the host alone"
    return device_name(context.trace) or "a device without a name"


def _record(term: str, store: str | None) -> Record:
    matches = find_records([term], store, latest=True)
    if len(matches) > 1:
        raise BadInput(f"{term} matches {len(matches)} records; name one by its id or key (tare list records)")
    return matches[0]
