"""What a rank did at every moment of its windows, as segments that do not overlap."""

from dataclasses import dataclass

import numpy as np

from tare.trace.breakdown import divide_work
from tare.trace.host import CAUSES, host_events
from tare.trace.idle import cut_gaps, describe
from tare.trace.intervals import Integers, Intervals, covered_length, difference, make
from tare.trace.names import short_name
from tare.trace.spans import BEGINNING, Timeline, pick, sum_by
from tare.trace.tables import Trace
from tare.trace.windows import main_device, windows

COMPUTING, MOVING = "computing", "moving"


@dataclass(frozen=True)
class RankStates:
    """`state` and `detail` are indices into `states` (computing, moving, the causes of idle time) and `details`
    (the same with the kernel, or the place). Communication is no segment; it is in `exposed`, with the row of
    Trace.device for each interval in `collective`."""

    start: Integers
    end: Integers
    state: Integers
    detail: Integers
    states: list[str]
    details: list[str]
    exposed: Intervals
    collective: Integers

    def during(self, intervals: Intervals, detailed: bool = False) -> dict[str, int]:
        """The time of each state, or detail, within the intervals."""
        names, codes = (self.details, self.detail) if detailed else (self.states, self.state)
        sums = sum_by(codes, covered_length(intervals, self.start, self.end), len(names))
        return {name: int(time) for name, time in zip(names, sums, strict=True) if time}


def rank_states(trace: Trace) -> RankStates:
    device, main = trace.device, main_device(trace)
    states, details = [COMPUTING, MOVING, *CAUSES], [MOVING]
    computes, collective, moving = divide_work(trace, main)
    computing = np.flatnonzero(computes)
    parts = []
    for rows, number in ((computing, 0), (np.flatnonzero(moving), 1)):
        start, end = _apart(device.start[rows], device.end[rows])
        detail = np.zeros(len(rows), dtype=np.int64)
        if number == 0:
            labels = [_kernel_text(trace, row) for row in rows.tolist()]
            code_of = {label: len(details) + i for i, label in enumerate(dict.fromkeys(labels))}
            details += code_of
            detail = np.array([code_of[label] for label in labels], dtype=np.int64)
        parts.append((start, end, np.full(len(rows), number, dtype=np.int64), detail))
    if main is not None:
        host = host_events(trace)
        _, segments = cut_gaps(trace, main, windows(trace, main), host)
        texts, where = describe(trace, host, segments)
        pairs, code = np.unique(np.stack([segments["cause"], where], axis=1), axis=0, return_inverse=True)
        names = [f"{CAUSES[cause]}: {texts[place]}" for cause, place in pairs.tolist()]
        codes = code.reshape(-1) + len(details)
        parts.append((segments["start"], segments["end"], segments["cause"] + 2, codes))
        details += names
    exposed, owner = _exposed(trace, np.flatnonzero(collective), device.intervals(computing))
    start, end, state, detail = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RankStates(start, end, state, detail, states, details, exposed, owner)


def _apart(start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Intervals, sorted by start, each without what an earlier one covers."""
    reached = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end))[:-1]
    begin = np.maximum(start, reached)
    return begin, np.maximum(begin, end)


def _kernel_text(trace: Trace, row: int) -> str:
    """The kernel and the outermost operator that launched it."""
    operators, call = trace.operators, int(trace.device.call[row])
    operator = int(pick(operators.top, np.array([pick(trace.calls.operator, np.array([call]))[0]]))[0])
    name = short_name(trace.name(trace.device, row))
    return f"computing: {name}" + (f" · {trace.name(operators, operator)}" if operator >= 0 else "")


def _exposed(trace: Trace, rows: Integers, computing: Intervals) -> tuple[Intervals, Integers]:
    """The exposed parts of each collective, and whose they are."""
    device = trace.device
    start, end = _apart(device.start[rows], device.end[rows])
    alone = difference(make(start, end), computing)
    times, owners = np.stack([start, end], axis=1).reshape(-1), np.stack([rows, np.full(len(rows), -1)], axis=1)
    whose = Timeline(np.append(BEGINNING, times), np.append(-1, owners.reshape(-1)))
    _, begin, finish, owner = whose.cut(*alone.T)
    return np.stack([begin, finish], axis=1), owner
