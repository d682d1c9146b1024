"""The figures of a report, each with its points, its data as CSV and the command that measures it again.

A family is all ladders that differ in their batch and sizes alone. Those that have more than one value are the
axes of its figure; the script of the page draws bars of one point, curves along an axis, or a map over two.
"""

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tare.cases.case import Case
from tare.report.ladder import Ladder, Row, case_settings, incomparable, sizes, where
from tare.report.numbers import several
from tare.report.suite import BASELINE, Suite
from tare.workloads import all_workloads
from tare.workloads.commands import COMMAND

# The estimate, and the bounds of its interval where it has one.
Estimate = tuple[float, float | None, float | None]


class Measure(msgspec.Struct, frozen=True):
    """What a figure may show. `unit` is one that the script of the page knows how to write."""

    name: str
    title: str
    unit: Literal["s", "B", "share", "x", "1/s"]


class _RowMeasure(NamedTuple):
    measure: Measure
    of: Callable[[Row, Case], Estimate | None]


def _time(row: Row, _: Case) -> Estimate | None:
    step = row.gross
    return step and (step.mid, step.low if step.sound else None, step.high if step.sound else None)


def _time_per_sample(row: Row, case: Case) -> Estimate | None:
    return (row.gross.mid / case.batch, None, None) if row.gross else None


def _plain(value: float | None) -> Estimate | None:
    return None if value is None else (value, None, None)


def _utilisation(row: Row, _: Case) -> Estimate | None:
    # An upper bound of net is none of this share.
    return None if row.tare_share is None or row.net_is_upper_bound else (1 - row.tare_share, None, None)


_MEASURES = (
    _RowMeasure(Measure("time", "time of a step (gross)", "s"), _time),
    _RowMeasure(Measure("net", "net: the device computes", "s"), lambda row, _: _plain(row.net_s)),
    _RowMeasure(Measure("sample", "time of a sample", "s"), _time_per_sample),
    _RowMeasure(
        Measure("latency", "latency of a single step", "s"), lambda r, _: _plain(r.latency and r.latency.mid)
    ),
    _RowMeasure(
        Measure("throughput", "samples per second", "1/s"),
        lambda r, _: _plain(r.samples_per_s and r.samples_per_s.mid),
    ),
    _RowMeasure(Measure("utilisation", "utilisation: net as a share of gross", "share"), _utilisation),
    _RowMeasure(Measure("speedup", "times as fast as eager", "x"), lambda row, _: _plain(row.speedup_over_eager)),
    _RowMeasure(Measure("device", "device memory", "B"), lambda row, _: _plain(row.device_bytes)),
    _RowMeasure(Measure("host", "host memory", "B"), lambda row, _: _plain(row.host_bytes)),
    _RowMeasure(Measure("prepare", "preparation, cold", "s"), lambda row, _: _plain(row.prepare_cold_s)),
)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One rung at one place: the values of the axes (in a suite: the workload), and its measures by name."""

    rung: str
    at: dict[str, Any]
    values: dict[str, Estimate]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`axes`: the one with the most values comes first. `missing` says why a planned point is not drawn."""

    id: str
    title: str
    subtitle: str
    axes: list[str]
    measures: list[Measure]
    points: list[Point]
    missing: list[str]
    command: str = ""

    @property
    def csv(self) -> str:
        """A line for each point."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        heads = [
            f"{measure.name} ({measure.unit}){bound}"
            for measure in self.measures
            for bound in ("", " low", " high")
        ]
        writer.writerow([*self.axes, "rung", *heads])
        for point in self.points:
            cells: list[Any] = [point.at[axis] for axis in self.axes]
            cells.append(point.rung)
            for measure in self.measures:
                cells += ["" if value is None else value for value in point.values.get(measure.name, (None,) * 3)]
            writer.writerow(cells)
        return text.getvalue()


class Family(NamedTuple):
    """Ladders of one environment that differ in their batch and sizes alone, with the axes in which they do."""

    ladders: list[Ladder]
    axes: list[str]

    @property
    def case(self) -> Case:
        return self.ladders[0].case

    @property
    def heading(self) -> str:
        """What its ladders share, without the sizes that are the workload's own."""
        if self.case.rung == COMMAND:
            return self.case.workload
        usual = default_sizes(self.case.workload)
        place = _place(self.case).items()
        fixed = {name: value for name, value in place if name not in self.axes and usual.get(name) != value}
        shape = (f"batch {fixed.pop('batch')}" if "batch" in fixed else "", sizes(fixed))
        case = self.case
        parts = (
            case.workload,
            case.mode,
            case.device,
            case.precision,
            *shape,
            case.optimizer,
            *case_settings(case),
        )
        return " · ".join(part for part in parts if part)

    @property
    def quality(self) -> str:
        """The fewest rounds of a rung, and what parity says of all: no figure may be read without them."""
        rows = [row for ladder in self.ladders for row in ladder.rows if row.gross]
        fewest = min((int(row.rounds.partition(" ")[0]) for row in rows), default=0)
        verdicts = ", ".join(dict.fromkeys(row.parity for row in rows))
        return f"{several(fewest, 'round')} or more, parity {verdicts}" if rows else ""


def make_families(ladders: Iterable[Ladder]) -> list[Family]:
    groups: dict[tuple[Any, ...], list[Ladder]] = {}
    for ladder in ladders:
        case = ladder.case
        shared = (case.workload, case.mode, case.device, case.precision, *case_settings(case), case.optimizer)
        key = (*shared, case.inputs, tuple(case.sizes), ladder.environment.base_id)
        groups.setdefault(key, []).append(ladder)
    families = []
    for group in groups.values():
        values: dict[str, set[int]] = {}
        for ladder in group:
            for name, value in _place(ladder.case).items():
                values.setdefault(name, set()).add(value)
        axes = sorted((name for name in values if len(values[name]) > 1), key=lambda name: -len(values[name]))
        families.append(Family(sorted(group, key=lambda one: [_place(one.case)[name] for name in axes]), axes))
    return families


def family_figure(family: Family, number: int) -> Figure:
    points, missing = [], []
    for ladder in family.ladders:
        place = {name: _place(ladder.case)[name] for name in family.axes}
        for row in ladder.rows:
            why = row.trouble or (f"{row.rung} {reason}" if (reason := incomparable(row)) else "")
            if why:
                missing.append(": ".join(filter(None, (sizes(place), why))))
                continue
            found = {each.measure.name: each.of(row, ladder.case) for each in _MEASURES}
            values = {name: estimate for name, estimate in found.items() if estimate}
            points.append(Point(rung=row.rung, at=place, values=values))
    known = {name for point in points for name in point.values}
    return Figure(
        id=f"figure-{number}",
        title=family.heading,
        subtitle=f"{where(family.ladders[0])}; {family.quality}",
        axes=family.axes,
        measures=[each.measure for each in _MEASURES if each.measure.name in known],
        points=points,
        missing=list(dict.fromkeys(missing)),
        command=command_of(family),
    )


_SUITE_MEASURES = {
    "speedup": Measure("speedup", f"times as fast as {BASELINE}", "x"),
    "host_ratio": Measure("host_ratio", f"host memory, times {BASELINE}'s", "x"),
    "device_ratio": Measure("device_ratio", f"device memory, times {BASELINE}'s", "x"),
}


def suite_figure(suite: Suite, number: int) -> Figure:
    """One rung against eager, a bar for each workload."""
    points = []
    for pair in sorted(suite.pairs, key=lambda pair: pair.speedup):
        ratios = {name: _plain(getattr(pair, name)) for name in _SUITE_MEASURES}
        values = {name: ratio for name, ratio in ratios.items() if ratio}
        points.append(Point(rung=suite.rung, at={"workload": pair.label}, values=values))
    known = {name for point in points for name in point.values}
    return Figure(
        id=f"figure-{number}",
        title=suite.heading,
        subtitle=suite.environment,
        axes=["workload"],
        measures=[measure for name, measure in _SUITE_MEASURES.items() if name in known],
        points=points,
        missing=suite.missed_lines,
    )


def command_of(family: Family) -> str:
    """The command that measures a family again, without how long each case was sampled, which records do not
    say."""
    rungs = dict.fromkeys(row.rung for ladder in family.ladders for row in ladder.rows)
    values = {name: _values(family, name) for name in ("batch", *family.case.sizes)}
    return run_command(family.case, _most_rounds(family.ladders), ",".join(rungs), values, family.axes)


def run_command(
    case: Case, rounds: int, rungs: str = "", values: Mapping[str, str] | None = None, axes: Sequence[str] = ()
) -> str:
    """The command that measures a case, or several rungs, batches and sizes of it (`values`, of which `axes` are
    named even where they are the workload's own); empty for a command that is a case itself."""
    if case.rung == COMMAND:
        return ""
    values = values or {name: str(value) for name, value in _place(case).items()}
    options: dict[str, str | None] = {"rung": rungs or case.rung, "mode": case.mode, "device": case.device}
    options |= {"precision": case.precision, "batch": values["batch"], "optimizer": case.optimizer}
    options |= {"layout": case.layout if case.layout != "contiguous" else None}
    options |= {"feed": case.feed if case.feed != "device" else None}
    options |= {"threads": str(case.threads) if case.threads else None}
    words = ["tare", "run", case.workload]
    for name, given in options.items():
        words += [f"--{name}", given] if given else []
    usual = default_sizes(case.workload)
    for name, value in case.sizes.items():
        if name in axes or usual.get(name) != value:
            words += ["--size", f"{name}={values[name]}"]
    return shlex.join([*words, "--rounds", str(rounds)])


def default_sizes(workload: str) -> Mapping[str, int]:
    """None for a workload that is not known here."""
    known = all_workloads().get(workload)
    return known.defaults if known else {}


def _most_rounds(ladders: Sequence[Ladder]) -> int:
    return max(int(row.rounds.rpartition(" ")[2]) for ladder in ladders for row in ladder.rows)


def _values(family: Family, name: str) -> str:
    return ",".join(str(value) for value in sorted({_place(ladder.case)[name] for ladder in family.ladders}))


def _place(case: Case) -> dict[str, int]:
    return {"batch": case.batch, **case.sizes}
