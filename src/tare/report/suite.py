"""A suite: one rung against eager over many workloads, as in figures 3 and 4 of the TorchBench paper.

A mean is taken over the workloads that ran on both sides and computed the same, and says over how
many of how many. The others are listed with their causes: a failure is never averaged away.
"""

from collections.abc import Iterable, Sequence
from statistics import geometric_mean

import msgspec

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.records.record import Record
from tare.report.ladder import Ladder, Row, case_settings, incomparable, known_columns, make_ladders, sizes, where
from tare.report.numbers import duration, ratio, short_size
from tare.report.view import FittingTable, View
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
    """`title` names what the workloads share: mode, device, precision and what is not the default."""

    rung: str
    title: str
    environment: str
    pairs: list[Pair]
    missed: list[Missed]
    speedup: SuiteMean | None
    host_memory: SuiteMean | None
    device_memory: SuiteMean | None

    @property
    def heading(self) -> str:
        return f"{self.rung} against {BASELINE} · {self.title}"

    @property
    def missed_lines(self) -> list[str]:
        return [one_line(f"{missed.label}: {missed.cause}") for missed in self.missed]


def make_suites(records: Iterable[Record], skipped: Iterable[Skip] = ()) -> list[Suite]:
    """A suite for every rung besides eager that several workloads have in one setting."""
    reasons = {skip.key: f"{skip.cause}: {skip.reason}" for skip in skipped}
    settings: dict[tuple[str, str], list[Ladder]] = {}
    for ladder in make_ladders(records):
        case = ladder.case
        # Batch, sizes and optimizer are each workload's own.
        setting = " · ".join((case.mode, case.device, case.precision, *case_settings(case)))
        settings.setdefault((setting, ladder.environment.base_id), []).append(ladder)
    suites = []
    for (setting, _), ladders in settings.items():
        rungs = dict.fromkeys(row.rung for ladder in ladders for row in ladder.rows if row.rung != BASELINE)
        if len({ladder.case.workload for ladder in ladders}) >= FEWEST:
            suites += [_suite(rung, setting, ladders, reasons) for rung in rungs]
    return suites


def _suite(rung: str, setting: str, ladders: Sequence[Ladder], reasons: dict[str, str]) -> Suite:
    pairs, missed = [], []
    names = [ladder.case.workload for ladder in ladders]
    for ladder in ladders:
        case = ladder.case
        # A workload that appears more than once is told apart by its batch and sizes.
        is_unique = names.count(case.workload) == 1
        label = case.workload if is_unique else f"{case.workload} b{case.batch} {sizes(case.sizes)}"
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
        title=setting,
        environment=where(ladders[0]),
        pairs=pairs,
        missed=missed,
        speedup=_mean([pair.speedup for pair in pairs], len(ladders)),
        host_memory=_mean([pair.host_ratio for pair in pairs], len(ladders)),
        device_memory=_mean([pair.device_ratio for pair in pairs], len(ladders)),
    )


def _cause(rung: str, row: Row | None, reason: str) -> str | None:
    if row is None:
        return f"{rung} was not measured" + (f" ({reason})" if reason else "")
    if row.trouble:
        return row.trouble
    if reason := incomparable(row):
        return f"{rung} {reason}"
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


def _mean(values: Sequence[float | None], planned: int) -> SuiteMean | None:
    ratios = [value for value in values if value]
    if not ratios:
        return None
    return SuiteMean(value=geometric_mean(ratios), low=min(ratios), high=max(ratios), n=len(ratios), m=planned)


def suite_view(suite: Suite) -> View:
    """Time, host memory and device memory of both sides with their ratios; the means; what was skipped."""
    rows = known_columns([_cells(suite.rung, pair) for pair in suite.pairs])
    # Of the columns after the speed-up, the last is dropped first.
    heads = list(rows[0]) if rows else []
    view = View(suite.heading, suite.environment)
    view.put(FittingTable(rows, folds={"workload": 0}, spare=[*heads[:3:-1], *heads[1:3]]))
    return view.add("result", *suite_lines(suite)).add(
        "failure", *(f"skipped: {line}" for line in suite.missed_lines)
    )


def suite_lines(suite: Suite) -> list[str]:
    """The means, each with its n of m."""
    means = {
        f"speed-up over {BASELINE}": suite.speedup,
        f"host memory against {BASELINE}": suite.host_memory,
        f"device memory against {BASELINE}": suite.device_memory,
    }
    lines = [
        f"{name}: {mean.value:.2f}x, geometric mean over {mean.n} of {mean.m} workloads "
        f"({ratio(mean.low, 0.0)} to {ratio(mean.high, 0.0)})"
        for name, mean in means.items()
        if mean
    ]
    none = f"speed-up over {BASELINE}: none (0 of {len(suite.missed)} workloads ran on both sides)"
    return lines if suite.pairs else [none]


def _cells(rung: str, pair: Pair) -> dict[str, str]:
    sides = {BASELINE: pair.baseline, rung: pair.row}
    times = {f"gross {name}": row.gross for name, row in sides.items()}
    return {
        "workload": pair.label,
        **{name: duration(step._replace(sound=False)) if step else "-" for name, step in times.items()},
        "speed-up": ratio(pair.speedup, pair.row.speedup_noise),
        **{f"host {name}": short_size(row.host_bytes) for name, row in sides.items()},
        "host x": ratio(pair.host_ratio, 0.0),
        **{f"device {name}": short_size(row.device_bytes) for name, row in sides.items()},
        "device x": ratio(pair.device_ratio, 0.0),
    }
