"""Names for pieces of idle time: the user's line and the module where stacks were recorded, else the operator."""

import numpy as np

from tare.trace.host import Host
from tare.trace.idle import Pieces
from tare.trace.intervals import Integers
from tare.trace.tables import Trace

UNKNOWN = "not known (no stack was recorded)"


def describe(trace: Trace, host: Host, pieces: Pieces) -> list[str]:
    """One text a piece."""
    frame = _frames(trace, host, pieces)
    operator = _operators(trace, host, pieces)
    known = [trace.names[i] for i in range(len(trace.names))]
    lines = host.places.line if trace.has_stacks else frame
    modules = host.places.module if trace.has_stacks else frame
    texts: dict[tuple[int, ...], str] = {}
    found = []
    for row, (own, at) in enumerate(zip(operator.tolist(), frame.tolist(), strict=True)):
        line = int(trace.frames.name[lines[at]]) if at >= 0 and lines[at] >= 0 else -1
        module = int(trace.frames.name[modules[at]]) if at >= 0 and modules[at] >= 0 else -1
        # Without an operator of its own, a piece of Python is named by the innermost frame, else by what followed.
        last = int(trace.frames.name[at]) if at >= 0 and own < 0 else -1
        following = _following(trace, pieces, row) if own < 0 and at < 0 else -1
        key = (own, line, module, last, following)
        if key not in texts:
            texts[key] = _text(known, *key)
        found.append(texts[key])
    return found


def _text(names: list[str], operator: int, line: int, module: int, frame: int, following: int) -> str:
    parts = [names[line]] if line >= 0 else []
    if module >= 0:
        parts.append(names[module].removeprefix("nn.Module: "))
    if operator >= 0:
        parts.append(names[operator])
    elif frame >= 0 and frame != line and not (module >= 0 and frame == module):
        parts.append(names[frame])
    if parts:
        return " · ".join(parts)
    return f"before {names[following]}" if following >= 0 else UNKNOWN


def _operators(trace: Trace, host: Host, pieces: Pieces) -> Integers:
    """The name of the outermost operator of each piece's own event, or of the call that launched."""
    own = np.full(len(pieces.gap), -1, dtype=np.int64)
    inside = pieces.host >= 0
    own[inside] = host.name[host.top[pieces.host[inside]]]
    called = ~inside & (pieces.call >= 0) & (pieces.start >= _start_of(trace, pieces.call))
    own[called] = _around(trace, pieces.call[called])
    return own


def _around(trace: Trace, call: Integers) -> Integers:
    """The outermost operator around each call, or the call itself."""
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


def _start_of(trace: Trace, call: Integers) -> Integers:
    return trace.calls.start[np.maximum(call, 0)] if len(trace.calls) else np.zeros(len(call), dtype=np.int64)


def _following(trace: Trace, pieces: Pieces, row: int) -> int:
    call = int(pieces.call[row])
    return int(_around(trace, np.array([call]))[0]) if call >= 0 else -1


def _frames(trace: Trace, host: Host, pieces: Pieces) -> Integers:
    """The innermost frame of each piece; for autograd's threads that of the forward operator it goes back over."""
    if not trace.has_stacks:
        return np.full(len(pieces.gap), -1, dtype=np.int64)
    at = np.where(
        (pieces.call >= 0) & (pieces.start >= _start_of(trace, pieces.call)),
        _start_of(trace, pieces.call),
        pieces.start,
    )
    found = np.where(pieces.frame >= 0, pieces.frame, host.places.frame_at(pieces.thread, at))
    operators, forward = trace.operators, host.places.forward
    missing = np.flatnonzero(found < 0)
    rows = np.where(pieces.host[missing] >= 0, host.operator[pieces.host[missing]], -1)
    called = pieces.call[missing]
    of_call = trace.calls.operator[np.maximum(called, 0)] if len(trace.calls) else np.full(len(missing), -1)
    rows = np.where((rows < 0) & (called >= 0), of_call, rows)
    for piece, row in zip(missing.tolist(), rows.tolist(), strict=True):
        while row >= 0:
            origin = forward.get(int(operators.sequence[row]), -1)
            if origin >= 0 and origin != row:
                thread, begin = operators.thread[[origin]], operators.start[[origin]]
                found[piece] = host.places.frame_at(thread, begin)[0]
                break
            row = int(operators.parent[row])
    return found
