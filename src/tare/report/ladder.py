"""A ladder: the rungs of one workload side by side. Figures only; the renderers decide how they look."""

from collections.abc import Iterable

import msgspec

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.figures import (
    device_peak,
    device_time,
    good_rounds,
    gross,
    host_peak,
    latency,
    preparation,
    throttled_share,
)
from tare.records.record import Record
from tare.report.notes import make_notes
from tare.stats.intervals import Interval


class Row(msgspec.Struct, kw_only=True):
    """One rung. A rung that computes something else has no ratios: it is different, never faster."""

    rung: str
    record: str
    gross: Interval | None
    latency: Interval | None
    device_s: float | None
    speedup_over_eager: float | None = None
    speed_of_best: float | None = None
    prepare_cold_s: float | None
    prepare_warm_s: float | None
    host_bytes: int | None
    device_bytes: int | None
    parity: str
    parity_error: float | None
    throttled: float
    rounds: str
    failure: str | None = None


class Ladder(msgspec.Struct, kw_only=True):
    """`case` is any of its cases; `notes` say what a reader must know before comparing."""

    key: str
    case: Case
    environment: Environment
    rows: list[Row]
    notes: list[str]


def make_ladders(records: Iterable[Record]) -> list[Ladder]:
    """Records grouped by everything but the rung; the newest record of a rung stands for it."""
    groups: dict[str, dict[str, Record]] = {}
    for record in records:
        groups.setdefault(record.case.ladder, {})[record.case.rung] = record
    return [_ladder(key, list(group.values())) for key, group in groups.items()]


def _ladder(key: str, records: list[Record]) -> Ladder:
    rows = [_row(record) for record in records]
    # A time of zero (an imported record can hold one) compares with nothing.
    comparable = [
        row for row in rows if row.gross and row.gross.mid > 0 and row.parity not in ("different", "nan")
    ]
    eager = next((row.gross for row in comparable if row.rung == "eager"), None)
    best = min((row.gross.mid for row in comparable if row.gross), default=None)
    for row in comparable:
        if row.gross is None:
            continue
        row.speedup_over_eager = eager.mid / row.gross.mid if eager else None
        row.speed_of_best = best / row.gross.mid if best else None
    return Ladder(
        key=key,
        case=records[0].case,
        environment=records[0].environment,
        rows=rows,
        notes=make_notes(records),
    )


def _row(record: Record) -> Row:
    cold, warm = preparation(record)
    good = len(good_rounds(record))
    return Row(
        rung=record.case.rung,
        record=record.id,
        gross=gross(record),
        latency=latency(record),
        device_s=device_time(record),
        prepare_cold_s=cold,
        prepare_warm_s=warm,
        host_bytes=host_peak(record),
        device_bytes=device_peak(record),
        parity=record.parity.status,
        parity_error=record.parity.error,
        throttled=throttled_share(record),
        rounds=f"{good} of {len(record.rounds)}",
        failure=f"{record.failure.cause} in {record.failure.stage or 'start'}: {record.failure.message}"
        if record.failure
        else None,
    )
