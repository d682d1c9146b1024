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
from tare.findings.python_time import grown_functions
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
OUTSIDE = "host time outside operators"
# It is named if its growth is this share of the step's: where operators grow, so does the Python around them.
MIN_OUTSIDE_SHARE = 0.6

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
    parsed = msgspec.structs.replace(Case.parse(case.case), source=case.sources[1])
    gross = next((change for change in case.changes if change.metric == "gross"), None)
    gross_ns = [round(seconds * 1e9) for seconds in (gross.a, gross.b)] if gross else [None, None]
    # The profilers are in the order now, before; the records in the order before, now.
    sides = list(zip(reversed(profilers), case.records, gross_ns, strict=True))

    def profile(
        side: tuple[Profiler, str, int | None], suffix: str = "", stacks: bool = False
    ) -> tuple[Path, Path]:
        # A profile of an interrupted check is reused.
        (executor, launcher), record, step_ns = side
        name = f"{record}{suffix}"
        return profile_case(
            executor, parsed, name, stacks=stacks, launcher=launcher, again=False, gross_ns=step_ns
        )

    contexts: tuple[list[Context], list[Context]] = ([], [])
    for number in range(PROFILES):
        for side, of_version in zip(sides, contexts, strict=True):
            path, _ = profile(side, f"-{number}" if number else "")
            of_version.append(read_context(path))
            if number:
                temporary.append(path)
    changes = step_call_changes(*contexts, any(c.unit == "s" for c in case.regressions))
    if any(change.kind == "python" for change in changes):
        # Only stacks tell which function it was, and they slow Python down, so they are recorded only for that.
        with_stacks = [read_context(profile(side, stacks=True)[1]) for side in sides]
        changes = _name_functions(changes, grown_functions(*with_stacks))
    # Without the cache, a second report only takes longer.
    with contextlib.suppress(OSError), replacing(cache, private=True) as partial:
        partial.write_bytes(msgspec.json.encode(changes))
    return changes


def step_call_changes(before: Sequence[Context], now: Sequence[Context], slower: bool) -> list[CallChange]:
    """The calls that differ between the steps of two versions, and those that account for a good part of the
    change in time. If the step became `slower`, calls that take more time come first; and before them the time
    outside operators, where that is why."""
    times = step_times_of(before, now)
    diff = diff_traces(before[0], now[0], times)
    grown = _grown_outside(*times) if slower else []
    as_profiled = step_times_of(before, now, as_profiled=True) if grown else times
    min_seconds = MIN_SHARE_OF_CHANGE * abs(diff.after_step_s - diff.before_step_s)
    slowed = slowed_operators(*times) if slower else []
    listed_names = {change.name for change in slowed}
    others = [
        change
        for change in (*diff.kernels, *diff.operators)
        if change.name not in listed_names
        # A different number of calls is a fact, however little time they take.
        and (change.status not in ("slower", "faster") or abs(change.difference_s) >= min_seconds)
        and not (grown and _is_artefact(change, *as_profiled))
    ]
    if slower:
        others.sort(key=lambda change: change.difference_s <= 0)
    return [*grown, *(_call_change(change) for change in (*slowed, *others))]


def _grown_outside(before: StepTimes, now: StepTimes) -> list[CallChange]:
    """The host time outside operators, if it accounts for most of the additional time: a step that sleeps, loops
    in Python or waits for something else than an operator."""
    was, later = before.outside, now.outside
    growth = later.seconds - was.seconds
    min_seconds = max(MIN_HOST_SHARE * before.step_s, MIN_OUTSIDE_SHARE * (now.step_s - before.step_s))
    if growth < min_seconds or not was.clearly_less(later):
        return []
    times = {"before_s": was.seconds, "after_s": later.seconds}
    return [CallChange(kind="python", name=OUTSIDE, status="slower", before_calls=1, after_calls=1, **times)]


def _is_artefact(change: TraceChange, before: StepTimes, now: StepTimes) -> bool:
    """Whether an operator with unchanged calls changed its share of gross, but not its time under the profiler
    (these two) in the same direction. The profiler slows down operators and does not slow down a sleep: where
    Python time grew, the scale of the operators' times differs between the sides."""
    if change.clock != "host" or change.status not in ("slower", "faster"):
        return False
    was, later = before.host[change.name], now.host[change.name]
    return not (was.clearly_less(later) if change.status == "slower" else later.clearly_less(was))


def _name_functions(changes: list[CallChange], functions: Sequence[str]) -> list[CallChange]:
    """With the Python functions in the name of the change outside operators."""
    name = f"{OUTSIDE}, in {' and '.join(functions)}" if functions else OUTSIDE
    return [msgspec.structs.replace(c, name=name) if c.kind == "python" else c for c in changes]


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
