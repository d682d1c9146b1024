"""The host's time in the steps by operator, for a trace without a device.

Every nanosecond of a step belongs to one operator (its self time on the stepping thread, or on another thread
while the stepping thread runs none) or to no operator: Python, or what the profiler does not see. The parts add up
to the steps.
"""

import re
from typing import NamedTuple

import msgspec
import numpy as np

from tare.trace.host import HostEvents
from tare.trace.intervals import Integers, Mask
from tare.trace.nesting import NO_OWNER
from tare.trace.tables import Trace
from tare.trace.windows import in_counted_steps

OUTSIDE = "(no operator)"
# Compiled regions, which compute without reporting kernels to the profiler.
_COMPILED = re.compile(r"Torch-Compiled Region|CompiledFxGraph|CompiledFunction|TorchScript|ProfilingGraph")
# Operators that allocate or make views, and operators that prepare the operands of another one.
_METADATA = re.compile(
    r"aten::(empty|resize|as_strided|view|_unsafe_view|reshape|_reshape_alias|expand|t$|transpose|permute|select|slice"
    r"|narrow|detach|alias|resolve_|unsqueeze|squeeze|result_type|lift|flatten|unflatten|unbind|split|chunk)"
)
_PREPARING = re.compile(r"aten::(copy_|fill_|zero_|zeros|clone|contiguous|to$|_to_copy|item$|_local_scalar_dense)")
# Nodes of autograd's graph, and other events that are not operators.
_WRAPPERS = re.compile(r"autograd::|Backward\d*$|^Optimizer|^cuda|^hip|DataLoader")
# The dispatch of one call takes at most this many times a metadata operator (aten::lstm takes 5.5 per callee).
_DISPATCH_FACTOR = 8


class OperatorTime(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    self_time: int
    calls: int


class HostTime(msgspec.Struct, frozen=True, kw_only=True):
    """`window` = `computed` + `dispatch` + `outside` = the sum of all `self_time`, which includes OUTSIDE."""

    window: int
    steps: int
    # Time in operators that compute, in those that only call others or make views, and in no operator.
    computed: int
    dispatch: int
    outside: int
    operators: list[OperatorTime]


class HostSegments(NamedTuple):
    """The host's time in the counted steps, cut wherever the owner changes: the index of the step, the row of
    HostEvents or NO_OWNER, and the length in nanoseconds. The lengths add up to the steps."""

    step: Integers
    owner: Integers
    length: Integers


def host_segments(trace: Trace, host: HostEvents) -> HostSegments:
    stepping = int(trace.steps.thread[0]) if len(trace.steps) else -1
    threads = [int(thread) for thread in np.unique(host.thread)]
    if stepping not in threads:
        stepping = int(np.bincount(host.thread).argmax()) if threads else -1
    counted = trace.steps.counted == 1
    start, end = trace.steps.start[counted], trace.steps.end[counted]
    step = np.arange(len(start))
    parts = []
    for thread in [stepping, *(thread for thread in threads if thread != stepping)]:
        span, start, end, owner = host.timeline(thread).cut(start, end)
        step, owned = step[span], owner != NO_OWNER
        parts.append((step[owned], owner[owned], (end - start)[owned]))
        step, start, end = step[~owned], start[~owned], end[~owned]
    parts.append((step, np.full(len(step), NO_OWNER, dtype=np.int64), end - start))
    return HostSegments(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def host_time(trace: Trace) -> HostTime | None:
    """None for a trace without steps."""
    if len(trace.steps) == 0:
        return None
    host = HostEvents(trace)
    segments = host_segments(trace, host)
    owned = segments.owner != NO_OWNER
    owner, length = segments.owner[owned], segments.length[owned]
    window, outside = int(segments.length.sum()), int(segments.length[~owned].sum())
    computed = int(length[_computing(trace, host)[owner]].sum())
    codes, inverse = np.unique(host.name[owner], return_inverse=True)
    sums = _sum_by(inverse, length, len(codes)).tolist()
    times = {trace.names[code]: time for code, time in zip(codes.tolist(), sums, strict=True)} | {OUTSIDE: outside}
    codes, counts = np.unique(host.name[in_counted_steps(trace, host.start)], return_counts=True)
    calls = {trace.names[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}
    ranked = sorted(times, key=lambda name: -times[name])
    return HostTime(
        window=window,
        steps=int((trace.steps.counted == 1).sum()),
        computed=computed,
        dispatch=window - computed - outside,
        outside=outside,
        operators=[OperatorTime(name=n, self_time=times[n], calls=calls.get(n, 0)) for n in ranked if times[n]],
    )


def _computing(trace: Trace, host: HostEvents) -> Mask:
    """Which events compute in their self time.

    An operator that calls no other, except to prepare operands, computes. One that calls others computes only if
    it keeps more time than it passes on and than dispatch can cost: aten::lstm passes its time on to
    aten::mkldnn_rnn_layer, which computes although it calls aten::add for two biases.
    """

    def named(pattern: re.Pattern[str]) -> Mask:
        return np.isin(host.name, [code for code, name in enumerate(trace.names) if pattern.search(name)])

    metadata, compiled = named(_METADATA), named(_COMPILED)
    nested = host.parent >= 0
    calling = np.zeros(len(host.start), dtype=bool)
    calling[host.parent[nested & ~metadata & ~named(_PREPARING)]] = True
    keeping = _keeping(host, metadata, nested)
    return compiled | ~((calling & ~keeping) | metadata | named(_WRAPPERS))


def _keeping(host: HostEvents, metadata: Mask, nested: Mask) -> Mask:
    """Events whose name keeps, over all its calls, more time than it passes on and than dispatch can cost.

    The cost of a dispatch is estimated from metadata operators, which do nothing else.
    """
    length = host.end - host.start
    callees = np.bincount(host.parent[nested], minlength=len(length))
    passed_on = _sum_by(host.parent[nested], length[nested], len(length))
    bare = length[metadata & (callees == 0)]
    dispatch = _DISPATCH_FACTOR * float(np.median(bare)) if len(bare) else 0.0
    codes, name = np.unique(host.name, return_inverse=True)
    kept, passed, calls = (
        _sum_by(name, values, len(codes)) for values in (length - passed_on, passed_on, callees + 1)
    )
    return np.asarray((kept > passed) & (kept > dispatch * calls), dtype=bool)[name]


def _sum_by(group: Integers, values: Integers, count: int) -> Integers:
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums
