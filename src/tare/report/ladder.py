"""A ladder: the rungs of one workload side by side. Figures only; the renderers decide how they look."""

import math
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
from tare.report.notes import make_notes, other_environment
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
    # The half widths of those ratios, as shares: both of their measurements are noisy.
    speedup_noise: float | None = None
    best_noise: float | None = None
    prepare_cold_s: float | None
    prepare_warm_s: float | None
    host_bytes: int | None
    device_bytes: int | None
    parity: str
    parity_error: float | None
    throttled: float
    rounds: str
    failure: str | None = None
    refused: bool = False

    @property
    def trouble(self) -> str | None:
        """Why this rung has no time, in a sentence."""
        if self.failure is None:
            return None
        return (
            f"{self.rung} cannot run it: {self.failure}" if self.refused else f"{self.rung} failed: {self.failure}"
        )


class Ladder(msgspec.Struct, kw_only=True):
    """`case` is any of its cases; `notes` say what a reader must know before comparing."""

    key: str
    case: Case
    environment: Environment
    rows: list[Row]
    notes: list[str]


def make_ladders(records: Iterable[Record]) -> list[Ladder]:
    """Records grouped by everything but the rung; the newest record of a rung stands for it.

    What comes from different environments never shares a ladder: no ratio between them would mean anything.
    """
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        rungs = groups.setdefault((record.case.ladder, record.environment.base_id), {})
        standing = rungs.get(record.case.rung)
        # Not the last one of the list: an exported file may hold them in any order.
        if standing is None or record.created >= standing.created:
            rungs[record.case.rung] = record
    ladders: list[Ladder] = []
    for (key, _), group in groups.items():
        made = _ladder(key, list(group.values()))
        twin = next((ladder for ladder in ladders if ladder.key == key), None)
        if twin:
            made.notes.insert(0, other_environment(twin.environment, made.environment))
        ladders.append(made)
    return ladders


def _ladder(key: str, records: list[Record]) -> Ladder:
    rows = [_row(record) for record in records]
    # A time of zero (an imported record can hold one) compares with nothing.
    comparable = [
        row for row in rows if row.gross and row.gross.mid > 0 and row.parity not in ("different", "nan")
    ]
    eager = next((row.gross for row in comparable if row.rung == "eager"), None)
    best = min((row.gross for row in comparable if row.gross), key=lambda step: step.mid, default=None)
    for row in comparable:
        if row.gross and eager:
            row.speedup_over_eager, row.speedup_noise = _ratio(eager, row.gross)
        if row.gross and best:
            row.speed_of_best, row.best_noise = _ratio(best, row.gross)
    return Ladder(
        key=key,
        case=records[0].case,
        environment=records[0].environment,
        rows=rows,
        notes=make_notes(records),
    )


def _ratio(reference: Interval, step: Interval) -> tuple[float, float | None]:
    """How many times as fast, and how uncertain that is (unknown where a single process measured either)."""
    value = reference.mid / step.mid
    if reference is step:
        return value, 0.0
    noise = math.hypot(reference.width, step.width)
    return value, noise if math.isfinite(noise) else None


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
        failure=_failure(record),
        refused=record.refused,
    )


def _failure(record: Record) -> str | None:
    if record.failure is None or record.refused:
        return record.failure.message if record.failure else None
    return f"{record.failure.cause} in {record.failure.stage or 'start'}: {record.failure.message}"
