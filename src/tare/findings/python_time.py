"""Which Python functions ran while no operator did, from a trace with stacks: the host time of the program."""

import numpy as np

from tare.findings.context import Context
from tare.trace.host import host_events
from tare.trace.lines import function_row
from tare.trace.spans import NO_OWNER, sum_by
from tare.trace.windows import select_steps

# A function that accounts for less of the growth is not named.
MIN_SHARE_OF_GROWTH = 1 / 3


def python_seconds(context: Context) -> dict[str, float]:
    """The seconds of a mean step by Python function, outside operators and runtime calls on the stepping thread. A
    function is the user's line nearest to what ran, with what it called if that is not the user's."""
    trace = select_steps(context.trace)
    host, frames = host_events(trace), trace.frames
    counted = trace.steps.counted == 1
    _, start, end, owner = host.timeline(host.stepping_thread).cut(
        trace.steps.start[counted], trace.steps.end[counted]
    )
    outside = owner == NO_OWNER
    _, start, end, frame = frames.timeline(host.stepping_thread).cut(start[outside], end[outside])
    known = frame >= 0
    lengths = sum_by(frame[known], (end - start)[known], len(frames))
    seconds: dict[str, float] = {}
    for row in np.flatnonzero(lengths).tolist():
        # Functions are compared, not their lines, which move when a file is edited.
        called, line = function_row(trace, row), function_row(trace, int(frames.line[row]))
        name = trace.name(frames, called)
        text = name if line in (-1, called) else f"{trace.name(frames, line)}, {name}"
        seconds[text] = seconds.get(text, 0.0) + float(lengths[row]) / counted.sum() / 1e9
    return seconds


def grown_functions(before: Context, now: Context) -> list[str]:
    """The functions that account for a good part of the growth of Python time, the largest first."""
    was, later = python_seconds(before), python_seconds(now)
    growth = {name: seconds - was.get(name, 0.0) for name, seconds in later.items()}
    total = sum(later.values()) - sum(was.values())
    named = [name for name, seconds in growth.items() if total > 0 and seconds >= MIN_SHARE_OF_GROWTH * total]
    return sorted(named, key=lambda name: -growth[name])
