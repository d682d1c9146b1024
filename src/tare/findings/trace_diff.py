"""What differs between two traces, per step: operators and kernels that appeared, vanished or changed their time.

Under a profiler the host is slow: of its time only shares are reliable, so an operator's host time is its share of
gross. Device time is the device's own, shortened only where the waterfall shortens it. All listed times therefore
fit into the step that `explain` shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from tare.findings.context import Context
from tare.findings.finding import Finding, all_rules, find
from tare.trace.explanation import About, Explanation, explain
from tare.trace.host import host_events
from tare.trace.host_time import host_segments
from tare.trace.spans import NO_OWNER, pick
from tare.trace.tables import Integers
from tare.trace.windows import counted_step, select_steps

Floats = npt.NDArray[np.floating[Any]]
Status = Literal["appeared", "vanished", "slower", "faster", "more calls", "fewer calls"]
Kind = Literal["operator", "kernel"]
Clock = Literal["device", "host"]
# Device time is steady: a tenth more per call is a change. Host time under a profiler is not.
DEVICE_RATIO, HOST_RATIO = 1.1, 1.5
# What changes the step by less than this share is not listed.
LEAST_SHARE = 0.001
# What changes the step by this share is listed however little one call differs: a kernel that is the whole step.
NOTICED_SHARE = 0.02


@dataclass(frozen=True)
class CallTimes:
    """One name: its calls in each step, and its seconds in each step, as two rows."""

    by_step: Floats

    @property
    def calls(self) -> float:
        """In the mean step."""
        return float(self.by_step[0].mean())

    @property
    def seconds(self) -> float:
        """In the median step, so that one disturbed step has no influence."""
        return float(np.median(self.by_step[1]))

    def clearly_less(self, other: "CallTimes") -> bool:
        """Whether the middle halves of the steps do not overlap."""
        return bool(np.quantile(self.by_step[1], 0.75) < np.quantile(other.by_step[1], 0.25))


TimesByName = dict[str, CallTimes]
ABSENT = CallTimes(np.zeros((2, 1)))


@dataclass(frozen=True)
class StepTimes:
    """The times of every operator and kernel over `steps` steps.

    `step_s` is gross, or the recorded step where gross is unknown (`profiled`); `net_s` is the part in which the
    device computes. `host` is each operator's self time with its runtime calls, `device` the time of the kernels
    it launches. `host_outermost` and `device_outermost` are the same for the operators that a user calls, with
    everything under them. `outside` is the host time in no operator: Python, or what the profiler does not see.
    """

    steps: int
    step_s: float
    net_s: float
    profiled: bool
    kernels: TimesByName
    device: TimesByName
    host: TimesByName
    host_outermost: TimesByName
    device_outermost: TimesByName
    outside: CallTimes


class TraceChange(msgspec.Struct, frozen=True, kw_only=True):
    """One operator or kernel. Calls are of the mean step, seconds of the median step, on the clock of the device
    (for an operator: of its kernels) or of the host."""

    kind: Kind
    name: str
    status: Status
    clock: Clock
    before_calls: float
    after_calls: float
    before_s: float
    after_s: float

    @property
    def difference_s(self) -> float:
        return self.after_s - self.before_s


class TraceDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The steps are those of `explain`: gross, or the recorded steps (`profiled`) where a trace does not state its
    gross. The device's part of a step is when the device (without one: an operator) computes. `findings` are those
    of the rules that compare two traces."""

    before: str
    after: str
    profiled: bool
    has_device: bool
    before_step_s: float
    after_step_s: float
    before_device_s: float
    after_device_s: float
    kernels: list[TraceChange]
    operators: list[TraceChange]
    findings: list[Finding]


def diff_traces(before: Context, after: Context, times: tuple[StepTimes, StepTimes] | None = None) -> TraceDiff:
    """`times` are given where there are further recordings of the same two programs."""
    was, now = times or step_times_of([before], [after])
    step_s = max(was.step_s, now.step_s)
    return TraceDiff(
        before=before.trace.source,
        after=after.trace.source,
        profiled=was.profiled,
        has_device=before.trace.has_device or after.trace.has_device,
        before_step_s=was.step_s,
        after_step_s=now.step_s,
        before_device_s=was.net_s,
        after_device_s=now.net_s,
        kernels=_compare("kernel", "device", was.kernels, now.kernels, step_s),
        operators=_compare_operators(was, now, step_s),
        findings=find(after, before, [rule for rule in all_rules().values() if rule.pair]),
    )


def step_times_of(
    before: Sequence[Context], after: Sequence[Context], as_profiled: bool = False
) -> tuple[StepTimes, StepTimes]:
    """Recordings of two programs on the same terms: all as profiled, where one does not know its gross."""
    gross_known = not as_profiled and all(context.gross_s is not None for context in (*before, *after))
    was, now = (
        _pooled([_step_times(context, context.gross_s if gross_known else None) for context in side])
        for side in (before, after)
    )
    return was, now


def _step_times(context: Context, gross_s: float | None) -> StepTimes:
    trace = select_steps(context.trace)
    explanation = explain(trace, About(title=trace.source, gross=round(gross_s * 1e9) if gross_s else None))
    steps = explanation.host.steps
    host_scale, device_scale = _scales(explanation, trace.steps.duration[trace.steps.counted == 1])
    table, calls, device = trace.operators, trace.calls, trace.device

    def sums(name: Integers, step: Integers, amounts: Floats | float = 1.0) -> Floats:
        """By name and counted step; what lies in none (-1) is dropped."""
        by_step = np.zeros((len(trace.names), steps))
        inside = step >= 0
        np.add.at(by_step, (name[inside], step[inside]), np.broadcast_to(amounts, step.shape)[inside])
        return by_step

    def times_by_name(calls: Floats, ns: Floats) -> TimesByName:
        codes = np.flatnonzero(calls.any(axis=1)).tolist()
        return {trace.names[code]: CallTimes(np.stack([calls[code], ns[code] / 1e9])) for code in codes}

    def operator_times(row: Integers, step: Integers, ns: Floats) -> tuple[TimesByName, TimesByName]:
        """From pieces of time in operators (-1: in none): of all operators, and of those that a user calls."""
        caller = pick(context.called, row)
        known = caller >= 0
        row, step, ns, caller = row[known], step[known], ns[known], caller[known]
        return (
            times_by_name(operator_calls, sums(table.name[row], step, ns)),
            times_by_name(user_calls, sums(table.name[caller], step, ns)),
        )

    operators, called = np.flatnonzero(context.called >= 0), np.unique(context.called[context.called >= 0])
    operator_step = counted_step(trace, table.start)
    operator_calls, user_calls = (sums(table.name[rows], operator_step[rows]) for rows in (operators, called))
    kernels = np.flatnonzero(device.kernels & (device.call >= 0))
    kernel_step = counted_step(trace, calls.start[device.call[kernels]])
    kernel_ns = device.duration[kernels] * device_scale
    kernel_sums = (sums(device.name[kernels], kernel_step, amounts) for amounts in (1.0, kernel_ns))
    on_device, user_on_device = operator_times(calls.operator[device.call[kernels]], kernel_step, kernel_ns)
    host = host_events(trace)
    segments = host_segments(trace, host)
    operator = pick(host.inherit(host.operator), segments.owner)
    host_ns = segments.length * host_scale[segments.step]
    on_host, user_on_host = operator_times(operator, segments.step, host_ns)
    outside_ns = np.where(segments.owner == NO_OWNER, host_ns, 0.0)
    return StepTimes(
        steps=steps,
        step_s=explanation.waterfall.gross / 1e9,
        net_s=explanation.waterfall.net / 1e9,
        profiled=explanation.waterfall.profiled,
        kernels=times_by_name(*kernel_sums),
        device=on_device,
        host=on_host,
        host_outermost=user_on_host,
        device_outermost=user_on_device,
        outside=CallTimes(np.stack([np.ones(steps), _by_step(segments.step, outside_ns, steps) / 1e9])),
    )


def _by_step(step: Integers, amounts: Floats, steps: int) -> Floats:
    by_step: Floats = np.bincount(step, weights=amounts, minlength=steps).astype(float)
    return by_step


def _pooled(recordings: Sequence[StepTimes]) -> StepTimes:
    """Several recordings of one program as one: the noise between processes becomes noise between steps."""

    def join(part: str) -> TimesByName:
        tables: list[TimesByName] = [getattr(recording, part) for recording in recordings]
        joined = {}
        for name in dict.fromkeys(chain.from_iterable(tables)):
            absent = [CallTimes(np.zeros((2, recording.steps))) for recording in recordings]
            times = [table.get(name, none).by_step for table, none in zip(tables, absent, strict=True)]
            joined[name] = CallTimes(np.concatenate(times, axis=1))
        return joined

    return StepTimes(
        steps=sum(recording.steps for recording in recordings),
        step_s=median(recording.step_s for recording in recordings),
        net_s=median(recording.net_s for recording in recordings),
        profiled=any(recording.profiled for recording in recordings),
        outside=CallTimes(np.concatenate([recording.outside.by_step for recording in recordings], axis=1)),
        **{part: join(part) for part in ("kernels", "device", "host", "host_outermost", "device_outermost")},
    )


def _scales(explanation: Explanation, lengths: Integers) -> tuple[Floats, float]:
    """What a nanosecond of the host in each recorded step, of these lengths, and one of the device count in the
    waterfall. Shares are taken step by step, so that a longer step has no larger ones."""
    waterfall, parts = explanation.waterfall, explanation.breakdown
    ratio = waterfall.gross / np.maximum(lengths, 1)
    if parts is None:
        return ratio, 1.0
    # A host that is ahead of its device takes less than gross, and is no slower without a profiler.
    device = waterfall.net * len(parts.steps) / parts.active if parts.active else 1.0
    return np.minimum(ratio, 1.0), device


def _compare_operators(before: StepTimes, after: StepTimes, step_s: float) -> list[TraceChange]:
    """By device time; operators that never launch anything by their own host time."""
    launching = {name for side in (before, after) for name, one in side.device.items() if one.by_step[1].any()}
    was, now = ({n: t for n, t in side.device.items() if n in launching} for side in (before, after))
    changes = _compare("operator", "device", was, now, step_s)
    was, now = ({n: t for n, t in side.host.items() if n not in launching} for side in (before, after))
    changes += _compare("operator", "host", was, now, step_s)
    return sorted(changes, key=lambda change: -abs(change.difference_s))


def _compare(
    kind: Kind, clock: Clock, before: TimesByName, after: TimesByName, step_s: float
) -> list[TraceChange]:
    changes = []
    for name in before.keys() | after.keys():
        was, now = before.get(name, ABSENT), after.get(name, ABSENT)
        difference = abs(now.seconds - was.seconds)
        ratio = HOST_RATIO
        if clock == "device":
            ratio = 1.0 if difference >= NOTICED_SHARE * step_s else DEVICE_RATIO
        status = _status(was, now, ratio)
        if status is None or (difference < LEAST_SHARE * step_s and status not in ("appeared", "vanished")):
            continue
        calls = {"before_calls": was.calls, "after_calls": now.calls}
        times = {"before_s": was.seconds, "after_s": now.seconds}
        changes.append(TraceChange(kind=kind, name=name, status=status, clock=clock, **calls, **times))
    return sorted(changes, key=lambda change: (-abs(change.difference_s), change.name))


def _status(was: CallTimes, now: CallTimes, ratio: float) -> Status | None:
    if was.calls == 0:
        return "appeared"
    if now.calls == 0:
        return "vanished"
    if round(now.calls, 3) != round(was.calls, 3):
        # With a different number of calls, a time per call would compare different things.
        return "more calls" if now.calls > was.calls else "fewer calls"
    # What differs as much between two steps of one trace is no difference between two traces.
    if now.seconds > ratio * was.seconds and was.clearly_less(now):
        return "slower"
    return "faster" if was.seconds > ratio * now.seconds and now.clearly_less(was) else None
