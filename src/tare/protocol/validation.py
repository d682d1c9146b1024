"""Whether the report of a round can be true: complete, consistent, and possible by the parent's own clock.

A worker times itself. The parent cannot check each block, but it knows when every message arrived, and no worker
can have measured for longer than it ran.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tare.protocol.jobs import CommandJob, RoundJob
from tare.protocol.messages import Checked, Done, Measured, Message, Prepared, Stage, StepProfile, Weighed
from tare.records.record import Series, SeriesKind

# The series of a round in their order. The runs of a command have no latency apart.
SERIES: tuple[SeriesKind, ...] = ("warmup", "pipelined", "latency")
COMMAND_SERIES = SERIES[:2]
SAMPLE = Stage("sample")
# Two clocks are read one after the other, and a process may lose the CPU in between.
ALLOWANCE_NS = 10_000_000
# A pipelined series that is a smaller share of the time in which it was taken does not stand for the steps. A
# sampler that takes a tenth of its budget at least, with some work between the blocks, is far above.
LEAST_SHARE = 0.01
# Shorter times are mostly the parent's own ticks.
SHORTEST_NS = 500_000_000
# The time between two messages that may lie before the first block of a series and after its last, as a share or
# in nanoseconds. There weights are restored and evidence is copied, which takes seconds for a large model; but the
# clock of a worker may be slow.
LARGEST_GAP, LARGEST_GAP_NS = 0.9, 2_000_000_000
# Device events lie inside the block; their clock is another one.
DEVICE_ALLOWANCE, DEVICE_ALLOWANCE_NS = 1.05, 100_000


class Arrival(NamedTuple):
    """When a message was sent, as far as the parent knows by its own clock (CLOCK_MONOTONIC): after the parent had
    last found nothing to read, and before it read the message."""

    sent_after_ns: int
    read_ns: int


class Received(NamedTuple):
    message: Message
    arrival: Arrival


def find_fault(job: RoundJob, began_ns: int, received: Sequence[Received]) -> str | None:
    """What is wrong with the report of a worker that began after `began_ns` and ended well; None for a good
    one."""
    return next(_faults(job, began_ns, received), None)


def _faults(job: RoundJob, began_ns: int, received: Sequence[Received]) -> Iterator[str]:
    yield from _wrong_messages(job, [each.message for each in received])
    for each in received:
        if isinstance(each.message, Measured):
            yield from _impossible_blocks(each.message.series)
        else:
            yield from _impossible_values(each, began_ns)
    entered = next(each.arrival for each in received if each.message == SAMPLE)
    measured = [(each.message.series, each.arrival) for each in received if isinstance(each.message, Measured)]
    yield from _impossible_times(job, began_ns, entered, measured)


def _wrong_messages(job: RoundJob, messages: Sequence[Message]) -> Iterator[str]:
    """Messages that are missing, doubled, or not where they belong."""
    counts = Counter(type(message) for message in messages)
    required: dict[type[Message], bool] = {
        Prepared: True,
        Weighed: True,
        Checked: job.reference is not None,
        StepProfile: job.profile,
        Done: True,
    }
    for kind, is_required in required.items():
        name = kind.__struct_config__.tag
        if counts[kind] > 1:
            yield f"the worker sent `{name}` {counts[kind]} times"
        if is_required and not counts[kind]:
            reason = ", although the job asks for parity" if kind is Checked else ""
            yield f"the worker left out `{name}`{reason}"
    kinds = [message.series.kind for message in messages if isinstance(message, Measured)]
    wanted = COMMAND_SERIES if isinstance(job, CommandJob) else SERIES
    if tuple(kinds) != wanted:
        listed = ", ".join(kinds) or "none"
        yield f"the series are not {', '.join(wanted)}, once each: the worker sent {listed}"
    if not isinstance(messages[-1], Done):
        yield "the worker went on sending messages after `done`"
    if SAMPLE not in messages:
        yield "the worker never entered the stage `sample`"


def _impossible_blocks(series: Series) -> Iterator[str]:
    name = f"the {series.kind} series"
    if not series.wall_ns:
        yield f"{name} has no block"
    free_from_ns = 0
    for number, (at_ns, wall_ns, steps) in enumerate(zip(series.at_ns, series.wall_ns, series.steps, strict=True)):
        if steps < 1 or wall_ns < steps:
            yield f"{name}: block {number} made {steps} steps in {wall_ns} ns, less than a nanosecond each"
        if at_ns < free_from_ns:
            yield f"{name}: block {number} began {free_from_ns - at_ns} ns before the previous one ended"
        free_from_ns = at_ns + wall_ns
    for number, (device_ns, wall_ns) in enumerate(zip(series.device_ns or (), series.wall_ns, strict=False)):
        if device_ns > wall_ns * DEVICE_ALLOWANCE + DEVICE_ALLOWANCE_NS:
            yield f"{name}: the device was busy for {device_ns} ns in block {number} of {wall_ns} ns"


def _impossible_values(received: Received, began_ns: int) -> Iterator[str]:
    message, (_, read_ns) = received
    if isinstance(message, Prepared):
        prepared_ns, most_ns = (message.build_s + message.prepare_s) * 1e9, read_ns - began_ns
        if min(message.build_s, message.prepare_s) < 0:
            yield "the duration of the preparation is negative"
        if prepared_ns > most_ns + ALLOWANCE_NS:
            yield f"the preparation took {_seconds(prepared_ns)}, and only {_seconds(most_ns)} had passed"
    if isinstance(message, Weighed) and message.cpu_pace is not None and message.cpu_pace <= 0:
        yield "the pace of the CPU is not positive"


def _impossible_times(
    job: RoundJob, began_ns: int, entered: Arrival, measured: Sequence[tuple[Series, Arrival]]
) -> Iterator[str]:
    """Series that do not fit into the time between their message and the one before. Each bound is the weaker one
    where the parent did not look for a while."""
    before, free_from_ns = entered, 0
    for series, arrival in measured:
        name = f"the {series.kind} series"
        first_ns, end_ns = series.at_ns[0], series.at_ns[-1] + series.wall_ns[-1]
        timed_ns, most_ns = sum(series.wall_ns), arrival.read_ns - before.sent_after_ns
        if max(timed_ns, end_ns - first_ns) > most_ns + ALLOWANCE_NS:
            yield f"{name} lasted {_seconds(end_ns - first_ns)}, and only {_seconds(most_ns)} had passed"
        if first_ns < free_from_ns:
            yield f"{name} began before the series before it had ended"
        # Elsewhere a program in C++ may have another clock.
        is_outside = first_ns < began_ns - ALLOWANCE_NS or end_ns > arrival.read_ns + ALLOWANCE_NS
        if sys.platform == "linux" and is_outside:
            yield f"{name} lies outside the time in which the worker ran, by CLOCK_MONOTONIC"
        least_ns = arrival.sent_after_ns - before.read_ns
        if series.kind == "pipelined":
            if least_ns > SHORTEST_NS and timed_ns < LEAST_SHARE * least_ns:
                yield f"{name} has timed {_seconds(timed_ns)} of the {_seconds(least_ns)} in which it was taken"
            if end_ns - first_ns < LEAST_SHARE * job.budget_s * 1e9:
                yield f"{name} lasted {_seconds(end_ns - first_ns)} of a budget of {job.budget_s:g} s"
        if series.kind != "warmup":
            gap_ns = max(LARGEST_GAP_NS, LARGEST_GAP * least_ns)
            if least_ns - (end_ns - first_ns) > gap_ns:
                passed = f"of the {_seconds(least_ns)} between its message and the one before"
                yield f"{name} lasted {_seconds(end_ns - first_ns)} {passed}: by a slow clock"
            late_ns = arrival.sent_after_ns - end_ns
            if sys.platform == "linux" and late_ns > gap_ns:
                yield f"{name} ended {_seconds(late_ns)} before it was sent: by a slow clock"
        before, free_from_ns = arrival, end_ns


def _seconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e9:.3g} s"
