"""What the rules over two traces share: operators by name and shape, and kernels by name, in figures per step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tare.findings import Context, Location, Match, WhatIf, spans_of
from tare.trace.tables import Integers, Trace

# Autograd's nodes and the dispatcher's wrappers repeat the operators within them.
WRAPPERS = ("autograd::", "ProfilerStep", "Torch-Compiled", "TorchDynamo", "AOTDispatcher", "Pregraph")


@dataclass
class ShapedOperator:
    """One operator at one shape, in figures per step. `self_s` is its host time without children (with them, where
    only outermost operators are counted)."""

    name: str
    shape: str
    calls: float = 0.0
    self_s: float = 0.0
    launches: float = 0.0
    kernels: dict[str, float] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)

    @property
    def device_s(self) -> float:
        return sum(self.kernels.values())

    @property
    def device_s_per_call(self) -> float:
        return self.device_s / self.calls

    @property
    def label(self) -> str:
        return f"{self.name} {self.shape}" if self.shape else self.name


def shaped_operators(context: Context, outermost_only: bool = False) -> dict[tuple[str, str], ShapedOperator]:
    """The operators of a trace's steps by name and shape; a kernel belongs to the innermost operator around it.

    With `outermost_only`, the operators that a user calls, each with all that it launches: aten::conv2d, whatever
    library computes it.
    """
    trace, table = context.trace, context.trace.operators
    by_shape: dict[tuple[str, str], ShapedOperator] = {}
    owner = outermost(trace) if outermost_only else np.arange(len(table))
    own = table.duration if outermost_only else table.self_time
    of_row: dict[int, ShapedOperator] = {}
    for row in np.flatnonzero(context.inside(table) & (owner == np.arange(len(table)))).tolist():
        name = trace.name(table, row)
        if name.startswith(WRAPPERS):
            continue
        text = trace.inputs_of(row).dims.decode(errors="replace")
        # Writers of traces put blanks in different places.
        shape = "".join(text.split())
        operator = by_shape.setdefault((name, shape), ShapedOperator(name, shape))
        operator.calls += 1 / context.steps
        operator.self_s += float(own[row]) / context.steps / 1e9
        operator.rows.append(row)
        of_row[row] = operator
    device, calls = trace.device, trace.calls
    for kernel in np.flatnonzero(device.kernels & context.launched).tolist():
        launching = int(calls.operator[device.call[kernel]])
        launcher = of_row.get(int(owner[launching])) if launching >= 0 else None
        if launcher is not None:
            name = trace.name(device, kernel)
            launcher.launches += 1 / context.steps
            launcher.kernels[name] = launcher.kernels.get(name, 0.0) + context.seconds(device, kernel)
    return by_shape


def outermost(trace: Trace) -> Integers:
    """For each operator the outermost one around it that is no wrapper."""
    table = trace.operators
    wrapping = np.array([name.startswith(WRAPPERS) for name in trace.names] or [False], dtype=bool)
    parent = table.parent
    free = (parent < 0) | wrapping[table.name[np.maximum(parent, 0)]] if len(table) else parent < 0
    return table.inherit(np.where(free, np.arange(len(table)), -1))


def kernel_times(context: Context) -> dict[str, tuple[float, float]]:
    """Launches and seconds per step of every kernel."""
    device = context.trace.device
    times: dict[str, tuple[float, float]] = {}
    for row in np.flatnonzero(device.kernels & context.launched).tolist():
        name = context.trace.name(device, row)
        count, seconds = times.get(name, (0.0, 0.0))
        times[name] = (count + 1 / context.steps, seconds + context.seconds(device, row))
    return times


def paired(before: Context, after: Context) -> Iterator[tuple[ShapedOperator, ShapedOperator]]:
    """The operators that a user calls and that launch kernels in both traces, of the same name and shape."""
    earlier = shaped_operators(before, outermost_only=True)
    for key, now in shaped_operators(after, outermost_only=True).items():
        was = earlier.get(key)
        if was is not None and was.kernels and now.kernels:
            yield was, now


class FormerShare(NamedTuple):
    """What an operator took before, as shares of what it takes now: of its device time and of its host time."""

    device: float
    host: float = 1.0


def former_share(was: ShapedOperator, now: ShapedOperator) -> FormerShare:
    """Per call. Host time under a profiler is unsteady: it counts only where there are more launches than before,
    which take host time for certain."""
    device = was.device_s_per_call / now.device_s_per_call
    if now.launches / now.calls < was.launches / was.calls + 1 or now.self_s <= 0:
        return FormerShare(device)
    return FormerShare(device, min((was.self_s / was.calls) / (now.self_s / now.calls), 1.0))


def slower_operators(
    before: Context,
    after: Context,
    describe: Callable[[ShapedOperator, ShapedOperator], str | None],
    summary: str,
) -> Match | None:
    """The match for the operators that take longer than before. `describe` returns where an operator is and how it
    changed, or None for one that is not slower."""
    table = after.trace.operators
    shares: dict[int, FormerShare] = {}
    locations = []
    for was, now in paired(before, after):
        if where := describe(was, now):
            shares |= dict.fromkeys(now.rows, former_share(was, now))
            locations.append(Location(where=where, count=now.calls, seconds=now.device_s))
    if not locations:
        return None
    rows = np.array(sorted(shares), dtype=np.int64)
    # Which part of an operator's host time is removed does not matter: its launches come out of what remains.
    removed = [
        (int(table.start[row] + share.host * table.duration[row]), int(table.end[row]))
        for row, share in shares.items()
        if share.host < 1
    ]
    factors = {a: shares[row].device for row, launched in after.activities_by(rows).items() for a in launched}
    return Match(
        summary=f"{len(locations)} operators run {summary}",
        evidence={"operators": len(locations), "device_s_per_step": sum(one.seconds for one in locations)},
        locations=locations,
        saving_s=after.saving(WhatIf(removed=removed, factors=factors)),
        spans=spans_of(after.trace.device, after.activities_of(after.calls_under(rows))),
    )
