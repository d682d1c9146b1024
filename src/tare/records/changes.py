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
    figures = [
        _interval("gross", gross(before), gross(after)),
        _plain("net", "s", net(before), net(after)),
        _interval("latency", latency(before), latency(after)),
        _plain("device time", "s", device_time(before), device_time(after)),
        _plain("preparation, cold", "s", preparation(before)[0], preparation(after)[0]),
        _plain("preparation, warm", "s", preparation(before)[1], preparation(after)[1]),
        _plain("host peak", "B", host_peak(before), host_peak(after)),
        _plain("device peak", "B", device_peak(before), device_peak(after)),
    ]
    return RecordChanges(
        before=before.id,
        after=after.id,
        case=_case(before, after),
        environment=difference_lines(before.environment, after.environment),
        figures=[figure for figure in figures if figure.before is not None or figure.after is not None],
    )


def _interval(name: str, before: Interval | None, after: Interval | None) -> FigureChange:
    clear = None
    if before and after and before.sound and after.sound:
        clear = before.high < after.low or after.high < before.low
    plain = _plain(name, "s", before.mid if before else None, after.mid if after else None)
    return msgspec.structs.replace(plain, clear=clear)


def _plain(name: str, unit: str, before: float | None, after: float | None) -> FigureChange:
    ratio = after / before if before and after is not None else None
    return FigureChange(name=name, unit=unit, before=before, after=after, ratio=ratio)


def _case(before: Record, after: Record) -> list[str]:
    old, new = (msgspec.structs.asdict(record.case) for record in (before, after))
    return [f"{name}: {old[name]} against {new[name]}" for name in old if old[name] != new[name]]
