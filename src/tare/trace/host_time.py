"""The host's time in the steps by operator, for a trace without a device.

Every nanosecond of a step belongs to one operator (its self time on the stepping thread, or on another thread
while the stepping thread runs none) or to no operator: Python, or what the profiler does not see. The parts add up
to the steps.
"""

import re
from typing import NamedTuple

import msgspec
import numpy as np

from tare.trace.host import HostEvents, host_events
from tare.trace.intervals import Integers, Mask, distinct
from tare.trace.spans import NO_OWNER, sum_by
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
    counted = trace.steps.counted == 1
    start, end = trace.steps.start[counted], trace.steps.end[counted]
    step = np.arange(len(start))
    parts = []
    operating = set(distinct(host.thread[host.operator >= 0]).tolist())
    # A thread that only calls a runtime may wait in it for the operators of another.
    threads = sorted(host.rows_by_thread, key=lambda one: (one != host.stepping_thread, one not in operating))
    for thread in threads:
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
    host = host_events(trace)
    segments = host_segments(trace, host)
    owned = segments.owner != NO_OWNER
    owner, length = segments.owner[owned], segments.length[owned]
    window, outside = int(segments.length.sum()), int(segments.length[~owned].sum())
    computed = int(length[_computing(trace, host)[owner]].sum())
    times = sum_by(host.name[owner], length, len(trace.names))
    calls = np.bincount(host.name[in_counted_steps(trace, host.start)], minlength=len(trace.names))
    operators = [
        OperatorTime(name=trace.names[code], self_time=int(times[code]), calls=int(calls[code]))
        for code in np.flatnonzero(times).tolist()
    ]
    if outside:
        operators.append(OperatorTime(name=OUTSIDE, self_time=outside, calls=0))
    return HostTime(
        window=window,
        steps=int(trace.steps.counted.sum()),
        computed=computed,
        dispatch=window - computed - outside,
        outside=outside,
        operators=sorted(operators, key=lambda operator: -operator.self_time),
    )


def _computing(trace: Trace, host: HostEvents) -> Mask:
    """Which events compute in their self time. Calls of a runtime never do.

    An operator that calls no other, except to prepare operands, computes. One that calls others computes only if
    it keeps more time than it passes on and than dispatch can cost: aten::lstm passes its time on to
    aten::mkldnn_rnn_layer, which computes although it calls aten::add for two biases.
    """
    patterns = (_METADATA, _PREPARING, _WRAPPERS, _COMPILED)
    metadata, preparing, wrapping, compiled = (trace.matching(host, pattern.search) for pattern in patterns)
    nested = host.parent >= 0
    calling = np.zeros(len(host), dtype=bool)
    calling[host.parent[nested & ~metadata & ~preparing]] = True
    return compiled | ~((calling & ~_keeping(host, metadata)) | metadata | wrapping | (host.operator < 0))


def _keeping(host: HostEvents, metadata: Mask) -> Mask:
    """Events whose name keeps, over all its calls, more time than it passes on and than dispatch can cost.

    The cost of a dispatch is estimated from metadata operators, which do nothing else.
    """
    nested = host.parent >= 0
    callees = np.bincount(host.parent[nested], minlength=len(host))
    passed_on = sum_by(host.parent[nested], host.duration[nested], len(host))
    bare = host.duration[metadata & (callees == 0)]
    dispatch = _DISPATCH_FACTOR * float(np.median(bare)) if len(bare) else 0.0
    names = int(host.name.max(initial=0)) + 1
    kept, passed, calls = (
        sum_by(host.name, values, names) for values in (host.duration - passed_on, passed_on, callees + 1)
    )
    return np.asarray((kept > passed) & (kept > dispatch * calls), dtype=bool)[host.name]
