"""Names for pieces of idle time: the user's line and the module where stacks were recorded, else the operator."""

import re

import numpy as np

from tare.trace.host import Host
from tare.trace.intervals import Integers
from tare.trace.pieces import Pieces
from tare.trace.tables import Mask, Trace

UNKNOWN = "not known (no stack was recorded)"
_BUILTIN = re.compile(r"<built-in (?:method|function) ?(?P<name>\S*?)(?: of .*)?>")


def describe(trace: Trace, host: Host, pieces: Pieces) -> tuple[list[str], Integers]:
    """Texts, and for each piece the number of its text."""
    columns = np.full((5, len(pieces)), -1, dtype=np.int64)
    own, line, module, innermost, following = columns
    own[:] = _operators(trace, host, pieces)
    # Without an operator of its own, a piece of Python is named by the innermost frame, else by what followed.
    alone = (own < 0) & (pieces.call >= 0)
    if trace.has_stacks:
        frame = _frames(trace, host, pieces)
        names = trace.frames.name
        for column, nearest in ((line, host.places.line), (module, host.places.module)):
            rows = np.where(frame >= 0, nearest[np.maximum(frame, 0)], -1)
            column[:] = np.where(rows >= 0, names[np.maximum(rows, 0)], -1)
        innermost[:] = np.where((own < 0) & (frame >= 0), names[np.maximum(frame, 0)], -1)
        alone &= frame < 0
    following[alone] = _around(trace, pieces.call[alone])
    first, code = _distinct(columns)
    return [_text(trace, *columns[:, row].tolist()) for row in first.tolist()], code


def _distinct(columns: Integers) -> tuple[Integers, Integers]:
    """For columns of numbers: one row of each kind, and the kind of each row. Much faster than unique(axis=0)."""
    code = np.zeros(columns.shape[1], dtype=np.int64)
    first = np.arange(min(1, len(code)))
    many = int(columns.max(initial=0)) + 2
    for column in columns:
        if len(column) and column.min() != column.max():
            first, code = _numbered(code * many + column + 1, len(first) * many)
    return first, code


def _numbered(values: Integers, bound: int) -> tuple[Integers, Integers]:
    """The same for one column of numbers below a bound."""
    if bound > 8 * len(values) + 65_536:
        _, first, code = np.unique(values, return_index=True, return_inverse=True)
        return first, code
    # A table of all that there can be is filled faster than what there is is sorted.
    row = np.full(bound, -1, dtype=np.int64)
    row[values[::-1]] = np.arange(len(values))[::-1]
    known = row >= 0
    return row[known], (np.cumsum(known) - 1)[values]


def _text(trace: Trace, operator: int, line: int, module: int, frame: int, following: int) -> str:
    names = trace.names
    parts = [names[line]] if line >= 0 else []
    if module >= 0:
        parts.append(names[module].removeprefix("nn.Module: "))
    if operator >= 0:
        parts.append(names[operator])
    elif frame >= 0 and frame not in (line, module):
        parts.append(_short(names[frame]))
    if parts:
        return " · ".join(parts)
    return f"before {names[following]}" if following >= 0 else UNKNOWN


def _short(frame: str) -> str:
    """A builtin without its address, which differs from process to process."""
    found = _BUILTIN.fullmatch(frame)
    return f"built-in {found['name'] or 'function'}" if found else frame


def _operators(trace: Trace, host: Host, pieces: Pieces) -> Integers:
    """The name of the outermost operator of each piece's own event, or of the call that launched."""
    own = np.full(len(pieces), -1, dtype=np.int64)
    inside = pieces.host >= 0
    own[inside] = host.name[host.top[pieces.host[inside]]]
    called = ~inside & _since_the_call(trace, pieces)
    own[called] = _around(trace, pieces.call[called])
    return own


def _around(trace: Trace, call: Integers) -> Integers:
    """The name of the outermost operator around each call, or of the call itself."""
    operators = trace.operators
    row = trace.calls.operator[call]
    if len(operators) == 0:
        return trace.calls.name[call]
    while True:
        above = np.where(row >= 0, operators.parent[np.maximum(row, 0)], -1)
        if not (above >= 0).any():
            break
        row = np.where(above >= 0, above, row)
    return np.where(row >= 0, operators.name[np.maximum(row, 0)], trace.calls.name[call])


def _since_the_call(trace: Trace, pieces: Pieces) -> Mask:
    """Which pieces lie in or behind the call that launched what ended their gap."""
    if len(trace.calls) == 0:
        return np.zeros(len(pieces), dtype=bool)
    return np.greater_equal(pieces.call, 0) & (pieces.start >= trace.calls.start[np.maximum(pieces.call, 0)])


def _frames(trace: Trace, host: Host, pieces: Pieces) -> Integers:
    """The innermost frame of each piece; for autograd's threads that of the forward operator it goes back over."""
    late = _since_the_call(trace, pieces)
    at = (
        np.where(late, trace.calls.start[np.maximum(pieces.call, 0)], pieces.start) if late.any() else pieces.start
    )
    found = np.where(pieces.frame >= 0, pieces.frame, host.places.frame_at(pieces.thread, at))
    missing = np.flatnonzero(found < 0)
    rows = np.where(pieces.host[missing] >= 0, host.operator[pieces.host[missing]], -1)
    called = pieces.call[missing]
    if len(trace.calls):
        rows = np.where((rows < 0) & (called >= 0), trace.calls.operator[np.maximum(called, 0)], rows)
    frames = {row: host.places.forward_frame(row) for row in np.unique(rows).tolist()}
    found[missing] = [frames[row] for row in rows.tolist()]
    return found
