"""The host's time in the steps, operator by operator: what there is to say of a trace without a device.

Every nanosecond of a step belongs to one operator (its self time on the stepping thread, or on another while that
one runs none) or to no operator: Python, or whatever the profiler does not see. The parts add up to the steps.
"""

import re
from typing import NamedTuple

import msgspec
import numpy as np

from tare.trace.host import Host, host_of
from tare.trace.intervals import Integers
from tare.trace.tables import Mask, Trace
from tare.trace.timeline import NOBODY
from tare.trace.windows import in_counted_steps

OUTSIDE = "(no operator)"
# What a compiler made computes by itself, without telling the profiler of its kernels.
_COMPILED = re.compile(r"Torch-Compiled Region|CompiledFxGraph|CompiledFunction|TorchScript|ProfilingGraph")
# What touches no data, and what an operator that computes calls to prepare its operands.
_NAMING = re.compile(
    r"aten::(empty|resize|as_strided|view|_unsafe_view|reshape|_reshape_alias|expand|t$|transpose|permute|select|slice"
    r"|narrow|detach|alias|resolve_|unsqueeze|squeeze|result_type|lift|flatten|unflatten|unbind|split|chunk)"
)
_PREPARING = re.compile(r"aten::(copy_|fill_|zero_|zeros|clone|contiguous|to$|_to_copy|item$|_local_scalar_dense)")
# What calling takes at most, in calls that do nothing else: arguments and checks (aten::lstm takes 5.5 for each).
_DEAREST_CALL = 8
# Nodes of autograd's graph, and whatever else is no operator of its own.
_AROUND = re.compile(r"autograd::|Backward\d*$|^Optimizer|^cuda|^hip|DataLoader")


class OperatorTime(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    self_time: int
    calls: int


class HostTime(msgspec.Struct, frozen=True, kw_only=True):
    """`window` = the sum of all `self_time`, with OUTSIDE among them = `computed` + `around` + `outside`."""

    window: int
    steps: int
    # In operators that compute, in those that only call or name others, in none.
    computed: int
    around: int
    outside: int
    operators: list[OperatorTime]


class Pieces(NamedTuple):
    """The host's time in the steps that count, cut at every change: the step (from 0, of those that count), the
    row of Host that the piece belongs to or NOBODY, and its nanoseconds. They add up to the steps."""

    step: Integers
    owner: Integers
    length: Integers


def host_pieces(trace: Trace, host: Host) -> Pieces:
    stepping = int(trace.steps.thread[0]) if len(trace.steps) else -1
    threads = [int(one) for one in np.unique(host.thread)]
    if stepping not in threads:
        stepping = int(np.bincount(host.thread).argmax()) if threads else -1
    counted = trace.steps.counted == 1
    start, end = trace.steps.start[counted], trace.steps.end[counted]
    step = np.arange(len(start))
    found = []
    for thread in [stepping, *(one for one in threads if one != stepping)]:
        piece, start, end, owner = host.timeline(thread).cut(start, end)
        step, taken = step[piece], owner != NOBODY
        found.append((step[taken], owner[taken], (end - start)[taken]))
        step, start, end = step[~taken], start[~taken], end[~taken]
    found.append((step, np.full(len(step), NOBODY, dtype=np.int64), end - start))
    return Pieces(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def host_time(trace: Trace) -> HostTime | None:
    """None for a trace in which no step and no operator was recorded."""
    if len(trace.steps) == 0:
        return None
    host = host_of(trace)
    pieces = host_pieces(trace, host)
    owned = pieces.owner != NOBODY
    owner, length = pieces.owner[owned], pieces.length[owned]
    window, outside = int(pieces.length.sum()), int(pieces.length[~owned].sum())
    codes, inverse = np.unique(host.name[owner], return_inverse=True)
    sums = np.zeros(len(codes), dtype=np.int64)
    np.add.at(sums, inverse, length)
    times = {trace.names[code]: total for code, total in zip(codes.tolist(), sums.tolist(), strict=True)}
    computed = int(length[_computing(trace, host)[owner]].sum())
    times[OUTSIDE] = outside
    calls = _calls(trace, host)
    ranked = sorted(times, key=lambda name: -times[name])
    return HostTime(
        window=window,
        steps=int((trace.steps.counted == 1).sum()),
        computed=computed,
        around=window - computed - outside,
        outside=outside,
        operators=[OperatorTime(name=n, self_time=times[n], calls=calls.get(n, 0)) for n in ranked if times[n]],
    )


def _computing(trace: Trace, host: Host) -> Mask:
    """Which events compute in their self time: operators that call no other but to prepare their operands, and
    those that do and keep more for themselves than their callees take and than so many calls can cost.

    What only calls others hands its time on (aten::lstm to aten::mkldnn_rnn_layer); that layer's one aten::add, of
    two biases, does not make its products dispatch."""

    def named(pattern: re.Pattern[str]) -> Mask:
        return np.isin(host.name, [code for code, name in enumerate(trace.names) if pattern.search(name)])

    naming, compiled = named(_NAMING), named(_COMPILED)
    inner = host.parent >= 0
    real = inner & ~naming & ~named(_PREPARING)
    calling = np.zeros(len(host.start), dtype=bool)
    calling[host.parent[real]] = True
    keeping = _keeping(host, naming, inner)
    return compiled | ~((calling & ~keeping) | naming | named(_AROUND))


def _keeping(host: Host, naming: Mask, inner: Mask) -> Mask:
    """Events of names whose calls, all together, keep more time than they hand on and than dispatch takes. What a
    call costs is told by the operators that do nothing but that: those that only name memory."""
    length = host.end - host.start
    calls = np.bincount(host.parent[inner], minlength=len(length))
    handed = np.zeros(len(length), dtype=np.int64)
    np.add.at(handed, host.parent[inner], length[inner])
    bare = length[naming & (calls == 0)]
    cost = _DEAREST_CALL * float(np.median(bare)) if len(bare) else 0.0
    _, name = np.unique(host.name, return_inverse=True)

    def by_name(values: Integers) -> Integers:
        sums = np.zeros(int(name.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(sums, name, values)
        return sums

    kept = by_name(length - handed)
    return np.asarray((kept > by_name(handed)) & (kept > cost * by_name(calls + 1)), dtype=bool)[name]


def _calls(trace: Trace, host: Host) -> dict[str, int]:
    """How often each operator began within a step."""
    codes, counts = np.unique(host.name[in_counted_steps(trace, host.start)], return_counts=True)
    return {trace.names[code]: int(count) for code, count in zip(codes, counts, strict=True)}
