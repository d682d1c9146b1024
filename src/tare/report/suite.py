"""A suite: one rung against eager over many workloads, as in the TorchBench paper's figures 3 and 4. Figures only.

A mean is taken over the workloads that ran on both sides and computed the same, and says how many of how many that
are. The others are listed with their causes: a failure is never averaged away.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.records.record import Record
from tare.report.ladder import Ladder, Row, make_ladders
from tare.report.terminal import where
from tare.stats.means import geometric_mean
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


class Mean(msgspec.Struct, kw_only=True):
    """A geometric mean over `n` of the `m` workloads, with the lowest and the highest of them."""

    value: float
    low: float
    high: float
    n: int
    m: int


class Suite(msgspec.Struct, kw_only=True):
    """`title` is what the workloads share: mode, device, precision and what else is not the default."""

    rung: str
    title: str
    place: str
    pairs: list[Pair]
    missed: list[Missed]
    speedup: Mean | None
    host_memory: Mean | None
    device_memory: Mean | None

    @property
    def planned(self) -> int:
        return len(self.pairs) + len(self.missed)


def make_suites(records: Iterable[Record], skipped: Iterable[Skip] = ()) -> list[Suite]:
    """A suite for every rung beside eager that several workloads have in one setting."""
    reasons = {skip.key: f"{skip.cause}: {skip.reason}" for skip in skipped}
    settings: dict[tuple[str, str], list[Ladder]] = {}
    for ladder in make_ladders(records):
        settings.setdefault((_setting(ladder), ladder.environment.base_id), []).append(ladder)
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
        # A workload that stands here more than once says at which batch and sizes.
        sizes = " ".join(f"{name}={value}" for name, value in case.sizes.items())
        label = case.workload if names.count(case.workload) == 1 else f"{case.workload} b{case.batch} {sizes}"
        baseline, row = _row(ladder, BASELINE), _row(ladder, rung)
        key = case.ladder.replace("*", rung, 1)
        cause = _cause(BASELINE, baseline, "") or _cause(rung, row, reasons.get(key) or _declared(case, rung))
        if cause or baseline is None or row is None:
            missed.append(Missed(label=label, key=key, cause=cause or "not measured"))
        else:
            pairs.append(_pair(label, key, baseline, row))
    planned = len(ladders)
    return Suite(
        rung=rung,
        title=title,
        place=where(ladders[0]),
        pairs=pairs,
        missed=missed,
        speedup=_mean(pairs, planned, lambda pair: pair.speedup),
        host_memory=_mean(pairs, planned, lambda pair: pair.host_ratio),
        device_memory=_mean(pairs, planned, lambda pair: pair.device_ratio),
    )


def _row(ladder: Ladder, rung: str) -> Row | None:
    return next((row for row in ladder.rows if row.rung == rung), None)


def _cause(rung: str, row: Row | None, reason: str) -> str | None:
    if row is None:
        return f"{rung} was not measured" + (f" ({reason})" if reason else "")
    if row.trouble:
        return row.trouble
    if row.parity in ("different", "nan"):
        return f"{rung} does not compute the same ({row.parity})"
    return None if row.gross and row.gross.mid > 0 else f"{rung} has no time"


def _declared(case: Case, rung: str) -> str:
    """Why the workload says that it cannot be: a record does not know what was left out beside it."""
    workload = all_workloads().get(case.workload)
    why = workload and workload.refusal(msgspec.structs.replace(case, rung=rung).asked)
    return f"unsupported: {why}" if why else ""


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


def _ratio(of: int | None, to: int | None) -> float | None:
    return of / to if of and to else None


def _mean(pairs: Sequence[Pair], planned: int, ratio: Callable[[Pair], float | None]) -> Mean | None:
    found = [value for pair in pairs if (value := ratio(pair))]
    if not found:
        return None
    return Mean(value=geometric_mean(found), low=min(found), high=max(found), n=len(found), m=planned)


def _setting(ladder: Ladder) -> str:
    """What a suite's ladders share; batch, sizes and optimizer are each workload's own."""
    case = ladder.case
    extra: list[str] = [case.layout] if case.layout != "contiguous" else []
    extra += [f"feed {case.feed}"] if case.feed != "device" else []
    extra += [f"{case.threads} threads"] if case.threads else []
    return " · ".join((case.mode, case.device, case.precision, *extra))
