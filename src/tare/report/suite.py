"""A suite: one rung against eager over many workloads, as in figures 3 and 4 of the TorchBench paper.

A mean is taken over the workloads that ran on both sides and computed the same, and says over how
many of how many. The others are listed with their causes: a failure is never averaged away.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from statistics import geometric_mean

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.records.record import Record
from tare.report.ladder import Ladder, Row, make_ladders
from tare.report.numbers import duration, ratio, short_size
from tare.report.table import FittingTable
from tare.report.terminal import case_settings, where
from tare.stats.intervals import Interval
from tare.system.text import one_line
from tare.workloads import all_workloads

BASELINE = "eager"
# Fewer workloads than this are no suite.
FEWEST = 2


class Pair(msgspec.Struct, kw_only=True):
    """One workload on both sides: how many times as fast, and how many times as much memory."""

    label: str
    key: str
    baseline: Row
    row: Row
    speedup: float
    host_ratio: float | None
    device_ratio: float | None


class Missed(msgspec.Struct, kw_only=True):
    label: str
    key: str
    cause: str


class SuiteMean(msgspec.Struct, kw_only=True):
    """The geometric mean over `n` of the `m` workloads, with the lowest and the highest ratio among them."""

    value: float
    low: float
    high: float
    n: int
    m: int


class Suite(msgspec.Struct, kw_only=True):
    """`title` names what the workloads share: mode, device, precision and settings that are not the default."""

    rung: str
    title: str
    environment: str
    pairs: list[Pair]
    missed: list[Missed]
    speedup: SuiteMean | None
    host_memory: SuiteMean | None
    device_memory: SuiteMean | None

    @property
    def planned(self) -> int:
        return len(self.pairs) + len(self.missed)


def make_suites(records: Iterable[Record], skipped: Iterable[Skip] = ()) -> list[Suite]:
    """A suite for every rung besides eager that several workloads have in one setting."""
    reasons = {skip.key: f"{skip.cause}: {skip.reason}" for skip in skipped}
    settings: dict[tuple[str, str], list[Ladder]] = {}
    for ladder in make_ladders(records):
        case = ladder.case
        # Batch, sizes and optimizer are each workload's own.
        title = " · ".join((case.mode, case.device, case.precision, *case_settings(case)))
        settings.setdefault((title, ladder.environment.base_id), []).append(ladder)
    suites = []
    for (title, _), ladders in settings.items():
        rungs = dict.fromkeys(row.rung for ladder in ladders for row in ladder.rows if row.rung != BASELINE)
        if len({ladder.case.workload for ladder in ladders}) >= FEWEST:
            suites += [_suite(rung, title, ladders, reasons) for rung in rungs]
    return suites


def _suite(rung: str, title: str, ladders: Sequence[Ladder], reasons: dict[str, str]) -> Suite:
    pairs, missed = [], []
    names = [ladder.case.workload for ladder in ladders]
    for ladder in ladders:
        case = ladder.case
        # A workload that appears more than once is told apart by its batch and sizes.
        sizes = " ".join(f"{name}={value}" for name, value in case.sizes.items())
        label = case.workload if names.count(case.workload) == 1 else f"{case.workload} b{case.batch} {sizes}"
        rows = {row.rung: row for row in ladder.rows}
        baseline, row = rows.get(BASELINE), rows.get(rung)
        key = case.ladder.replace("*", rung, 1)
        cause = _cause(BASELINE, baseline, "") or _cause(rung, row, reasons.get(key) or _declared(case, rung))
        if cause or baseline is None or row is None:
            missed.append(Missed(label=label, key=key, cause=cause or "not measured"))
        else:
            pairs.append(_pair(label, key, baseline, row))
    return Suite(
        rung=rung,
        title=title,
        environment=where(ladders[0]),
        pairs=pairs,
        missed=missed,
        speedup=_mean(pairs, len(ladders), lambda pair: pair.speedup),
        host_memory=_mean(pairs, len(ladders), lambda pair: pair.host_ratio),
        device_memory=_mean(pairs, len(ladders), lambda pair: pair.device_ratio),
    )


def _cause(rung: str, row: Row | None, reason: str) -> str | None:
    if row is None:
        return f"{rung} was not measured" + (f" ({reason})" if reason else "")
    if row.trouble:
        return row.trouble
    if row.parity in ("different", "nan"):
        return f"{rung} does not compute the same ({row.parity})"
    return None if row.gross and row.gross.mid > 0 else f"{rung} has no time"


def _declared(case: Case, rung: str) -> str:
    """Why the workload declares that the rung cannot run it: exported records do not hold what was skipped."""
    workload = all_workloads().get(case.workload)
    reason = workload and workload.refusal(msgspec.structs.replace(case, rung=rung).requirements)
    return f"unsupported: {reason}" if reason else ""


def _pair(label: str, key: str, baseline: Row, row: Row) -> Pair:
    assert baseline.gross is not None
    assert row.gross is not None
    return Pair(
        label=label,
        key=key,
        baseline=baseline,
        row=row,
        speedup=baseline.gross.mid / row.gross.mid,
        host_ratio=_ratio(row.host_bytes, baseline.host_bytes),
        device_ratio=_ratio(row.device_bytes, baseline.device_bytes),
    )


def _ratio(value: int | None, baseline: int | None) -> float | None:
    return value / baseline if value and baseline else None


def _mean(pairs: Sequence[Pair], planned: int, ratio: Callable[[Pair], float | None]) -> SuiteMean | None:
    ratios = [value for pair in pairs if (value := ratio(pair))]
    if not ratios:
        return None
    return SuiteMean(value=geometric_mean(ratios), low=min(ratios), high=max(ratios), n=len(ratios), m=planned)


def suite_cells(suite: Suite) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: time, host memory and device memory of both sides with their ratios."""
    sides = (BASELINE, suite.rung)
    heads = ["workload", *(f"gross {side}" for side in sides), "speed-up"]
    for kind in ("host", "device"):
        heads += [*(f"{kind} {side}" for side in sides), f"{kind} x"]
    rows = [
        [
            pair.label,
            _time(pair.baseline.gross),
            _time(pair.row.gross),
            ratio(pair.speedup, pair.row.speedup_noise),
            *(short_size(row.host_bytes) for row in (pair.baseline, pair.row)),
            ratio(pair.host_ratio, 0.0),
            *(short_size(row.device_bytes) for row in (pair.baseline, pair.row)),
            ratio(pair.device_ratio, 0.0),
        ]
        for pair in suite.pairs
    ]
    if all(row[7:] == ["-", "-", "-"] for row in rows):
        # On a CPU there is no device memory.
        return heads[:7], [row[:7] for row in rows]
    return heads, rows


def suite_lines(suite: Suite) -> list[str]:
    """The means, each with its n of m."""
    lines = [f"speed-up over {BASELINE}: {_mean_text(suite.speedup, suite.planned)}"]
    if suite.host_memory:
        lines.append(f"host memory against {BASELINE}: {_mean_text(suite.host_memory, suite.planned)}")
    if suite.device_memory:
        lines.append(f"device memory against {BASELINE}: {_mean_text(suite.device_memory, suite.planned)}")
    return lines


def missed_lines(suite: Suite) -> list[str]:
    return [one_line(f"{missed.label}: {missed.cause}") for missed in suite.missed]


def suite_title(suite: Suite) -> str:
    return f"{suite.rung} against {BASELINE} · {suite.title}"


def suite_view(suite: Suite) -> RenderableType:
    heads, rows = suite_cells(suite)
    parts: list[RenderableType] = [
        Text(suite_title(suite), style="bold"),
        Text(suite.environment, style="dim"),
    ]
    if rows:
        # A head takes several lines, so that the figures decide the width of a column.
        heads = [head if head == "speed-up" else re.sub(r"(?<=[:-])|\s", "\n", head) for head in heads]
        # Of the columns after the speed-up, the last is dropped first.
        spare = [*heads[:3:-1], *heads[1:3]]
        parts.append(FittingTable(heads, rows, right=heads[1:], folds={"workload": 0}, spare=spare, paddings=(1,)))
    parts += [Text(f"  {line}", style="bold") for line in suite_lines(suite)]
    parts += [Text(f"  skipped: {line}", style="red") for line in missed_lines(suite)]
    return Group(*parts)


def _mean_text(mean: SuiteMean | None, planned: int) -> str:
    if mean is None:
        return f"none (0 of {planned} workloads ran on both sides)"
    spread = f"{ratio(mean.low, 0.0)} to {ratio(mean.high, 0.0)}"
    return f"{mean.value:.2f}x, geometric mean over {mean.n} of {mean.m} workloads ({spread})"


def _time(step: Interval | None) -> str:
    return duration(step._replace(sound=False)) if step else "-"
