"""Profiles both versions of regressed cases, and compares their traces: what changed in the step itself."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.commands.traces import profile_case, read_context
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.findings.context import Context
from tare.findings.trace_diff import StepTimes, TraceChange, diff_traces, step_times_of
from tare.guard.changes import CallChange, CaseChange, Report
from tare.report.files import replacing
from tare.system.home import differences_path

MAX_PROFILED_CASES = 4
# Profiles of each version: one process may be slow in one operator from its first step to its last.
PROFILES = 3
# An operator that grew by less than this share of the step is not named. A device's clock is less noisy.
MIN_HOST_SHARE, MIN_DEVICE_SHARE = 0.03, 0.01
# Nor is one that became slower or faster by less than this share of the step's own change.
MIN_SHARE_OF_CHANGE = 0.1

Profiler = tuple[LocalExecutor, Launcher]


def add_profiles(report: Report, profilers: Sequence[Profiler], notify: Callable[[str], None]) -> None:
    """Adds the call changes of each regressed case. `profilers` are those of the version now and of the baseline.
    The traces stay in TARE_HOME under the ids of the records, where `tare diff` finds them."""
    # A case that only fails in some rounds is no slower.
    regressed = [case for case in report.bad if (case.regressions or case.leaks) and case.records]
    count = min(len(regressed), MAX_PROFILED_CASES)
    for number, case in enumerate(regressed[:count], 1):
        temporary: list[Path] = []
        notify(f"profiling what changed in {case.case.partition('/')[0]} ({number} of {count})")
        try:
            case.call_changes = _profile(case, profilers, temporary)
            case.call_changes_by = "profile"
        except TareError as error:
            report.notes.append(f"{case.case} could not be profiled: {error}")
        # Deleted only now: a check that is interrupted reuses them when it is resumed.
        for path in temporary:
            path.unlink()
    if len(regressed) > count:
        report.notes.append(f"only {count} of {len(regressed)} regressed cases were profiled")


def _profile(case: CaseChange, profilers: Sequence[Profiler], temporary: list[Path]) -> list[CallChange]:
    """The call changes of one case; traces that are not needed afterwards are added to `temporary`. The result is
    cached, so that the same report in another format needs no profile."""
    cache = differences_path(*case.records)
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(cache.read_bytes(), type=list[CallChange])
    parsed = Case.parse(case.case)
    gross = next((change for change in case.changes if change.metric == "gross"), None)
    gross_ns = [round(seconds * 1e9) for seconds in (gross.a, gross.b)] if gross else [None, None]
    contexts: tuple[list[Context], list[Context]] = ([], [])
    for number in range(PROFILES):
        # The profilers are in the order now, before; the records in the order before, now.
        for (executor, launcher), record, step_ns, of_version in zip(
            reversed(profilers), case.records, gross_ns, contexts, strict=True
        ):
            name = f"{record}-{number}" if number else record
            # A profile of an interrupted check is reused.
            path, _ = profile_case(
                executor, parsed, name, stacks=False, launcher=launcher, again=False, gross_ns=step_ns
            )
            of_version.append(read_context(path))
            if number:
                temporary.append(path)
    changes = step_call_changes(*contexts, any(c.unit == "s" for c in case.regressions))
    # Without the cache, a second report only takes longer.
    with contextlib.suppress(OSError), replacing(cache) as partial:
        partial.write_bytes(msgspec.json.encode(changes))
    return changes


def step_call_changes(before: Sequence[Context], now: Sequence[Context], slower: bool) -> list[CallChange]:
    """The calls that differ between the steps of two versions, and those that account for a good part of the
    change in time. If the step became `slower`, calls that take more time come first."""
    times = step_times_of(before, now)
    diff = diff_traces(before[0], now[0], times)
    min_seconds = MIN_SHARE_OF_CHANGE * abs(diff.after_step_s - diff.before_step_s)
    slowed = slowed_operators(*times) if slower else []
    listed_names = {change.name for change in slowed}
    others = [
        change
        for change in (*diff.kernels, *diff.operators)
        if change.name not in listed_names
        # A different number of calls is a fact, however little time they take.
        and (change.status not in ("slower", "faster") or abs(change.difference_s) >= min_seconds)
    ]
    if slower:
        others.sort(key=lambda change: change.difference_s <= 0)
    return [_call_change(change) for change in (*slowed, *others)]


def slowed_operators(before: StepTimes, now: StepTimes) -> list[TraceChange]:
    """The outermost operators with unchanged calls that account for a good part of the additional time: on a GPU
    with all kernels that they launch, on a CPU with all operators that they call. A profile of a few steps is
    noisy, so an operator that grew less, or within its variation from step to step, is not named."""
    on_gpu = bool(now.kernels)
    times, times_now = (side.device_outermost if on_gpu else side.host_outermost for side in (before, now))
    share = MIN_DEVICE_SHARE if on_gpu else MIN_HOST_SHARE
    min_seconds = max(share * before.step_s, (now.step_s - before.step_s) / 3)
    changes = [
        TraceChange(
            kind="operator",
            name=name,
            status="slower",
            clock="device" if on_gpu else "host",
            before_calls=_calls(was.calls),
            after_calls=_calls(times_now[name].calls),
            before_s=was.seconds,
            after_s=times_now[name].seconds,
        )
        for name, was in times.items()
        if name in times_now and was.clearly_less(times_now[name])
    ]
    slowed = [c for c in changes if c.before_calls == c.after_calls and c.difference_s >= min_seconds]
    return sorted(slowed, key=lambda change: -change.difference_s)


def _calls(number: float) -> float:
    """A sum of shares of a step, without rounding errors."""
    return round(number, 6)


def _call_change(change: TraceChange) -> CallChange:
    calls = {"before_calls": _calls(change.before_calls), "after_calls": _calls(change.after_calls)}
    return msgspec.structs.replace(msgspec.convert(change, CallChange, from_attributes=True), **calls)
