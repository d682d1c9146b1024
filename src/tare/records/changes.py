"""The differences between two records: case, environment, figures."""

import msgspec

from tare.records.environment import difference_lines
from tare.records.figures import device_peak, device_time, gross, host_peak, latency, net, preparation
from tare.records.record import Record
from tare.stats.intervals import Interval


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """`clear` is True where the two intervals do not overlap, and None where either has no valid interval."""

    name: str
    unit: str
    before: float | None
    after: float | None
    ratio: float | None
    clear: bool | None = None


class RecordChanges(msgspec.Struct, frozen=True, kw_only=True):
    before: str
    after: str
    case: list[str]
    environment: list[str]
    figures: list[FigureChange]


def record_changes(before: Record, after: Record) -> RecordChanges:
    old, new = (msgspec.structs.asdict(record.case) for record in (before, after))
    figures = [
        _change("gross", "s", gross(before), gross(after)),
        _change("net", "s", net(before), net(after)),
        _change("latency", "s", latency(before), latency(after)),
        _change("device time", "s", device_time(before), device_time(after)),
        _change("preparation, cold", "s", preparation(before)[0], preparation(after)[0]),
        _change("preparation, warm", "s", preparation(before)[1], preparation(after)[1]),
        _change("host peak", "B", host_peak(before), host_peak(after)),
        _change("device peak", "B", device_peak(before), device_peak(after)),
    ]
    return RecordChanges(
        before=before.id,
        after=after.id,
        case=[f"{name}: {old[name]} against {new[name]}" for name in old if old[name] != new[name]],
        environment=difference_lines(before.environment, after.environment),
        figures=[figure for figure in figures if figure.before is not None or figure.after is not None],
    )


def _change(name: str, unit: str, before: Interval | float | None, after: Interval | float | None) -> FigureChange:
    clear = None
    if isinstance(before, Interval) and isinstance(after, Interval) and before.sound and after.sound:
        clear = before.high < after.low or after.high < before.low
    old, new = (value.mid if isinstance(value, Interval) else value for value in (before, after))
    ratio = new / old if old and new is not None else None
    return FigureChange(name=name, unit=unit, before=old, after=new, ratio=ratio, clear=clear)
