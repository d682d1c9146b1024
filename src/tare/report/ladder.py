"""A ladder: the figures of the rungs of one workload side by side, for every renderer."""

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
    net,
    net_profile,
    preparation,
    tare,
    throttled_share,
)
from tare.records.record import Record
from tare.report.notes import make_notes, other_environment
from tare.rungs.registry import every_name, optimisations_of
from tare.stats.intervals import Interval


class Row(msgspec.Struct, kw_only=True):
    """One rung. A rung whose result differs has no ratios: it is different, never faster."""

    rung: str
    record: str
    gross: Interval | None
    # Seconds of a step in which the device computed, the rest of gross, and that rest as a share of gross.
    net_s: float | None = None
    tare_s: float | None = None
    tare_share: float | None = None
    # True where net is at most `net_s`, and so tare at least `tare_s`; why there is no net.
    net_is_upper_bound: bool = False
    net_reason: str = ""
    # None where the rung is not known here.
    optimisations: list[str] | None = None
    latency: Interval | None
    device_s: float | None
    speedup_over_eager: float | None = None
    speed_of_best: float | None = None
    # The half widths of those ratios, as shares: both of their times are noisy.
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
    """`case` is any of its cases; `notes` say what matters for a comparison of its rungs."""

    key: str
    case: Case
    environment: Environment
    rows: list[Row]
    notes: list[str]

    @property
    def optimised(self) -> str:
        """What each rung optimises, in one line: a rung with better kernels is not less stack."""
        rungs: dict[str, list[str]] = {}
        for row in self.rows:
            if row.optimisations is None:
                continue
            rungs.setdefault(", ".join(row.optimisations) or "nothing", []).append(row.rung)
        if not any(row.optimisations for row in self.rows):
            return ""
        return "optimised: " + "; ".join(f"{', '.join(names)}: {text}" for text, names in rungs.items())


def make_ladders(records: Iterable[Record]) -> list[Ladder]:
    """Groups records by everything but the rung, with the newest record of each rung. Records from different
    environments never share a ladder, because a ratio between them would mean nothing."""
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        rungs = groups.setdefault((record.case.ladder, record.environment.base_id), {})
        newest = rungs.get(record.case.rung)
        # An exported file may hold records in any order.
        if newest is None or record.created >= newest.created:
            rungs[record.case.rung] = record
    ladders: list[Ladder] = []
    # Cheap rungs are measured first, so the order of the records is not that of a ladder.
    order = {name: position for position, name in enumerate(every_name())}
    for (key, _), group in groups.items():
        ladder = _ladder(key, sorted(group.values(), key=lambda record: order.get(record.case.rung, len(order))))
        same_cases = next((earlier for earlier in ladders if earlier.key == key), None)
        if same_cases:
            ladder.notes.insert(0, other_environment(same_cases.environment, ladder.environment))
        ladders.append(ladder)
    return ladders


def _ladder(key: str, records: list[Record]) -> Ladder:
    rows = [_row(record) for record in records]
    # An imported record can hold a time of zero, which has no ratio.
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
    """The speed-up and its relative uncertainty, None where a single process measured either time."""
    value = reference.mid / step.mid
    if reference is step:
        return value, 0.0
    noise = math.hypot(reference.width, step.width)
    return value, noise if math.isfinite(noise) else None


def _row(record: Record) -> Row:
    cold, warm = preparation(record)
    good = len(good_rounds(record))
    step, stack, profiled = gross(record), tare(record), net_profile(record)
    return Row(
        rung=record.case.rung,
        record=record.id,
        gross=step,
        net_s=net(record),
        tare_s=stack,
        tare_share=stack / step.mid if step and step.mid > 0 and stack is not None else None,
        net_is_upper_bound=profiled is not None and profiled.upper_bound,
        net_reason=profiled.reason if profiled else "",
        optimisations=optimisations_of(record.case),
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
