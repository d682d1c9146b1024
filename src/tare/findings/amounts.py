"""How often and how long every operator and kernel runs, step by step, in the time of a step as `explain` has it.

Under a profiler the host is slow: of its time only shares are true, and so an operator's host time is its share of
gross. Device time is the device's own, shortened only where the waterfall shortens it. Whatever is listed is thus
contained in the step that stands above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from tare.findings.compared import WRAPPERS, outermost
from tare.trace.explanation import About, Explanation, explain
from tare.trace.host import Host, host_of
from tare.trace.hosttime import host_pieces
from tare.trace.nesting import inherit
from tare.trace.tables import Integers, Trace
from tare.trace.timeline import NOBODY
from tare.trace.windows import counted_step, usual

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Amount:
    """One name: its calls in the mean step, its seconds in each step."""

    calls: float
    each: Floats

    @property
    def seconds(self) -> float:
        """Of the median step: one in which something else took the processor says nothing of the others."""
        return float(np.median(self.each))

    def clearly_less(self, other: "Amount") -> bool:
        """Whether the middle halves of the steps do not even touch."""
        return bool(np.quantile(self.each, 0.75) < np.quantile(other.each, 0.25))


Amounts = dict[str, Amount]


@dataclass(frozen=True)
class Weighed:
    """`step_s` is gross, or where that is `profiled` the recorded step; `net_s` is the part that computes. Each
    amount is of as many `steps`.

    `host` is each operator's self time with its calls of the runtime, `device` that of the kernels it launches;
    `whole` is the host time of the operators that a user calls, with all that they call, and `launched` that of
    all kernels under them."""

    steps: int
    step_s: float
    net_s: float
    profiled: bool
    kernels: Amounts
    device: Amounts
    host: Amounts
    whole: Amounts
    launched: Amounts


def weigh(trace: Trace, gross_s: float | None) -> Weighed:
    trace = usual(trace)
    gross = round(gross_s * 1e9) if gross_s else None
    explained = explain(trace, About(title=trace.source, gross=gross))
    steps = explained.host.steps
    host_scale, device_scale = _scales(explained, trace.steps.duration[trace.steps.counted == 1])
    table, calls, work = trace.operators, trace.calls, trace.device
    named = ~np.isin(table.name, [i for i, name in enumerate(trace.names) if name.startswith(WRAPPERS)])
    rows = np.flatnonzero(work.kernels & (work.call >= 0))
    step = counted_step(trace, calls.start[work.call[rows]])
    operator = calls.operator[work.call[rows]]
    begun = counted_step(trace, table.start)
    times = work.duration[rows] * device_scale
    known = np.flatnonzero((operator >= 0) & named[operator]) if len(table) else operator[:0]
    made = _Making(trace, steps)
    kernels = made.amounts(work.name[rows], step, work.name[rows], step, times)
    launching = (table.name[operator[known]], step[known], times[known])
    host = host_of(trace)
    pieces = host_pieces(trace, host)
    owner = _operator_of(host, pieces.owner)
    mine = np.flatnonzero((owner >= 0) & named[owner]) if len(table) else owner[:0]
    top = outermost(trace)
    above = top[owner[mine]] if len(table) else mine
    at = pieces.step[mine]
    lengths = pieces.length[mine] * host_scale[at]
    users = named & (top == np.arange(len(table)))
    under = (table.name[top[operator[known]]], step[known], times[known]) if len(table) else launching
    return Weighed(
        steps=steps,
        step_s=explained.waterfall.gross / 1e9,
        net_s=explained.waterfall.net / 1e9,
        profiled=explained.waterfall.profiled,
        kernels=kernels,
        device=made.amounts(table.name[named], begun[named], *launching),
        host=made.amounts(table.name[named], begun[named], table.name[owner[mine]], at, lengths),
        whole=made.amounts(table.name[users], begun[users], table.name[above], at, lengths),
        launched=made.amounts(table.name[users], begun[users], *under),
    )


def pooled(rounds: Sequence[Weighed]) -> Weighed:
    """Several recordings of one program as one: noise lives between processes, and then is between the steps."""
    steps = sum(one.steps for one in rounds)

    def join(part: str) -> Amounts:
        tables: list[Amounts] = [getattr(one, part) for one in rounds]
        absent = [Amount(0.0, np.zeros(one.steps)) for one in rounds]
        found = {}
        for name in dict.fromkeys(name for table in tables for name in table):
            amounts = [table.get(name, none) for table, none in zip(tables, absent, strict=True)]
            calls = sum(one.calls * len(one.each) for one in amounts) / steps
            found[name] = Amount(calls, np.concatenate([one.each for one in amounts]))
        return found

    return Weighed(
        steps=steps,
        step_s=median(one.step_s for one in rounds),
        net_s=median(one.net_s for one in rounds),
        profiled=any(one.profiled for one in rounds),
        **{part: join(part) for part in ("kernels", "device", "host", "whole", "launched")},
    )


def _scales(explained: Explanation, lengths: Integers) -> tuple[Floats, float]:
    """What a nanosecond of the host in each recorded step, of these lengths, and one of the device is in the
    waterfall. Every step's shares are its own: one that took longer has no larger ones."""
    fall, parts = explained.waterfall, explained.breakdown
    ratio = fall.gross / np.maximum(lengths, 1)
    if parts is None:
        return ratio, 1.0
    # A host that is ahead of its device takes less than gross, and is no slower without a profiler.
    return np.minimum(ratio, 1.0), fall.net * len(parts.steps) / parts.active if parts.active else 1.0


def _operator_of(host: Host, owner: Integers) -> Integers:
    """The operator (row of Trace.operators) that each piece of host time is in, its runtime calls' too, or -1."""
    rows = inherit(np.where(host.operator >= 0, np.arange(len(host.operator)), -1), host.parent)
    if len(rows) == 0:
        return np.full(len(owner), -1, dtype=np.int64)
    nearest = np.where(owner == NOBODY, -1, rows[owner])
    return np.where(nearest >= 0, host.operator[nearest], -1)


class _Making:
    def __init__(self, trace: Trace, steps: int) -> None:
        self._trace, self._steps = trace, steps

    def amounts(
        self, called: Integers, call_step: Integers, name: Integers, step: Integers, ns: Floats
    ) -> Amounts:
        """From calls and from pieces of time, each with the number of its name and its step (-1: in none)."""
        inside = np.flatnonzero(call_step >= 0)
        codes, group = np.unique(called[inside], return_inverse=True)
        counts = np.bincount(group, minlength=len(codes)) / self._steps
        each = np.zeros((len(codes), self._steps))
        kept = np.flatnonzero((step >= 0) & np.isin(name, codes))
        np.add.at(each, (np.searchsorted(codes, name[kept]), step[kept]), ns[kept])
        return {
            self._trace.names[code]: Amount(float(count), row / 1e9)
            for code, count, row in zip(codes.tolist(), counts.tolist(), each, strict=True)
        }
