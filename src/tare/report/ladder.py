"""A ladder: the figures of the rungs of one workload side by side, and its view."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from tare.cases.case import Case
from tare.errors import unknown
from tare.records.environment import Environment
from tare.records.figures import (
    device_peak,
    device_time,
    good_rounds,
    gross,
    host_peak,
    latency,
    latency_percentile,
    net,
    net_profile,
    preparation,
    samples_per_second,
    spread_within_rounds,
    tare,
    throttled_share,
    tokens_per_second,
)
from tare.records.record import Record
from tare.report.notes import make_notes, other_environment
from tare.report.numbers import duration, percent, rate, ratio, seconds, several, short_size
from tare.report.view import FittingTable, View
from tare.rungs.registry import every_name, optimisations_of
from tare.stats.intervals import Interval
from tare.system.text import one_line
from tare.workloads.commands import COMMAND

PARITY = {"same": "same", "different": "DIFFERENT", "nan": "NAN", "unchecked": "unchecked"}
# Dropped first on a narrow terminal. The parity stays: no figure may be read without it.
SPARE = ("warm", "x best", "host", "prepare", "device", "latency", "net", "x eager")
# Shown only where they are asked for, and all that may be asked for.
ON_REQUEST = ("p50", "p95", "p99", "spread", "throughput", "tokens")
COLUMNS = ("net", "tare", "latency", "x eager", "x best", "prepare", "warm", "host", "device", *ON_REQUEST)
# Why a column that was asked for may have no figure at all, and what gives it one.
NO_FIGURE = {
    "p95": "p95 needs 20 single steps: give more time (--budget) or rounds",
    "p99": "p99 needs 100 single steps: give more time (--budget) or rounds",
    "tokens": "the workload does not say what a token is (your own may: tokens_per_sample = 128 in its file)",
}
# The longest name of a rung of ours, which is folded only if dropping columns is not enough.
RUNG_WIDTH = len("compile:reduce-overhead")


class Row(msgspec.Struct, kw_only=True):
    """One rung. A rung whose result differs has no ratios: it is different, never faster. Nor has one that could
    not be checked although that was asked for (`unchecked` says why)."""

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
    # Percentiles of latency, the spread of gross within a round as a share, samples and tokens per second.
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    latency_p99_s: float | None = None
    spread: float | None = None
    samples_per_s: Interval | None = None
    tokens_per_s: Interval | None = None
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
    unchecked: str = ""
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
    rows = [make_row(record) for record in records]
    # An imported record can hold a time of zero, which has no ratio.
    comparable = [row for row in rows if row.gross and row.gross.mid > 0 and not incomparable(row)]
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


def make_row(record: Record) -> Row:
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
        latency_p50_s=latency_percentile(record, 50),
        latency_p95_s=latency_percentile(record, 95),
        latency_p99_s=latency_percentile(record, 99),
        spread=spread_within_rounds(record),
        samples_per_s=samples_per_second(record),
        tokens_per_s=tokens_per_second(record),
        prepare_cold_s=cold,
        prepare_warm_s=warm,
        host_bytes=host_peak(record),
        device_bytes=device_peak(record),
        parity=record.parity.status,
        parity_error=record.parity.error,
        unchecked=record.parity.missing,
        throttled=throttled_share(record),
        rounds=f"{good} of {len(record.rounds)}",
        failure=_failure(record),
        refused=record.refused,
    )


def incomparable(row: Row) -> str:
    """Why the time of a rung is not compared with others, or an empty text."""
    if row.parity in ("different", "nan"):
        return f"does not compute the same ({row.parity})"
    return f"was not checked: {row.unchecked}" if row.unchecked else ""


def _failure(record: Record) -> str | None:
    if record.failure is None or record.refused:
        return record.failure.message if record.failure else None
    return f"{record.failure.cause} in {record.failure.stage or 'start'}: {record.failure.message}"


def title(case: Case, batch: str = "") -> str:
    """What a ladder is of. `batch` stands for one that is not known yet."""
    if case.rung == COMMAND:
        return case.workload
    size = (batch or f"batch {case.batch}", sizes(case.sizes))
    parts = (case.workload, case.mode, case.device, case.precision, *size, case.optimizer, *case_settings(case))
    return " · ".join(part for part in parts if part)


def sizes(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def case_settings(case: Case) -> list[str]:
    """Layout, feed and threads, where they are not the default."""
    settings: list[str] = [case.layout] if case.layout != "contiguous" else []
    settings += [f"feed {case.feed}"] if case.feed != "device" else []
    return [*settings, several(case.threads, "thread")] if case.threads else settings


def where(ladder: Ladder) -> str:
    """The machine and the software that a ladder was measured with."""
    machine, software = ladder.environment.machine, ladder.environment.software
    chip = machine.get("gpu") if ladder.case.device_type == "cuda" else None
    chip = chip or f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores"
    return one_line(f"{chip}, torch {software.get('torch', '?')}, python {software.get('python', '?')}")


def read_columns(text: str) -> tuple[str, ...]:
    """The columns in a list with commas. BadInput names the valid ones."""
    columns = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in columns:
        if name not in COLUMNS:
            raise unknown("column", name, COLUMNS, "--columns")
    return columns


def ladder_view(ladder: Ladder, columns: Sequence[str] | None = ()) -> View:
    """`columns` are shown besides the usual ones, and dropped last where there is no room for all. None: every
    column for which there is a figure."""
    rows = [columns_of(row_cells(row), columns) for row in ladder.rows if row.gross]
    rows = known_columns(rows, ("rung", *(columns or ())))
    view = View(title(ladder.case), where(ladder))
    spare = spare_columns(SPARE, columns)
    view.put(FittingTable(rows, words=("parity",), folds={"rung": RUNG_WIDTH}, spare=spare))
    for row in ladder.rows:
        view.add("aside" if row.refused else "failure", row.trouble or "")
    missing = [text for name, text in NO_FIGURE.items() if name in (columns or ()) and not has_figure(rows, name)]
    return view.add("note", *ladder.notes, *missing).add("aside", ladder.optimised)


def has_figure(rows: Sequence[Mapping[str, str]], name: str) -> bool:
    return not rows or any(row[name] != "-" for row in rows)


def row_cells(row: Row) -> dict[str, str]:
    """The cells of a table by their heads; a dash for a figure that is not known."""
    return {
        "rung": row.rung,
        "gross": duration(row.gross) if row.gross else "-",
        "net": ("<" if row.net_is_upper_bound and row.net_s is not None else "") + _part(row.gross, row.net_s),
        "tare": _part(row.gross, row.tare_s) + (f" {row.tare_share:.0%}" if row.tare_share is not None else ""),
        "latency": duration(row.latency._replace(sound=False)) if row.latency else "-",
        "p50": seconds(row.latency_p50_s, 3),
        "p95": seconds(row.latency_p95_s, 3),
        "p99": seconds(row.latency_p99_s, 3),
        "spread": percent(row.spread) if row.spread is not None else "-",
        "throughput": rate(row.samples_per_s and row.samples_per_s.mid),
        "tokens": rate(row.tokens_per_s and row.tokens_per_s.mid),
        "x eager": ratio(row.speedup_over_eager, row.speedup_noise),
        "x best": ratio(row.speed_of_best, row.best_noise),
        "prepare": seconds(row.prepare_cold_s),
        "warm": seconds(row.prepare_warm_s),
        "host": short_size(row.host_bytes),
        "device": short_size(row.device_bytes),
        "parity": PARITY[row.parity],
    }


def columns_of(cells: Mapping[str, str], columns: Sequence[str] | None) -> dict[str, str]:
    """The usual cells, and those that were asked for."""
    wanted = ON_REQUEST if columns is None else columns
    return {name: cell for name, cell in cells.items() if name not in ON_REQUEST or name in wanted}


def spare_columns(usual: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """What is dropped first on a narrow terminal: what was asked for comes last."""
    wanted = ON_REQUEST if columns is None else columns
    return [*(name for name in usual if name not in wanted), *reversed(wanted)]


def known_columns(rows: Sequence[Mapping[str, str]], kept: Collection[str] = ()) -> list[dict[str, str]]:
    """The rows without the columns that have a dash in all of them."""
    known = {name for row in rows for name, cell in row.items() if cell != "-" or name in kept}
    return [{name: cell for name, cell in row.items() if name in known} for row in rows]


def _part(step: Interval | None, value: float | None) -> str:
    """A part of a step, with as many digits as the step's own noise allows."""
    if step is None or value is None:
        return "-"
    half = (step.high - step.low) / 2
    return duration(step._replace(low=value - half, mid=value, high=value + half, sound=False))
