"""What a regression changed in the step itself: both versions are profiled, and their traces compared."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.commands.traces import profile_case
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.findings.context import Context
from tare.findings.trace_diff import StepTimes, TraceChange, diff_traces, step_times_of
from tare.guard.changes import CaseChange, CallChange, Report
from tare.report.files import replacing
from tare.system.home import differences_path
from tare.trace.read import read
from tare.trace.windows import select_steps

# A night that is all red needs no fifty profiles.
MOST_CASES = 4
# Noise lives between processes: one of them may be slow in one operator from its first step to its last.
PROFILES = 3
# An operator that grew by less than this share of the step is not named. A device's clock is steadier.
LEAST_SHARE, DEVICE_SHARE = 0.03, 0.01
# Nor is what became slower or faster by less than this share of the step's own change.
LEAST_OF_CHANGE = 0.1

Profiled = tuple[LocalExecutor, Launcher]


def add_profiles(report: Report, sides: Sequence[Profiled], tell: Callable[[str], None]) -> None:
    """Of each regressed case, what appeared, vanished, slowed: now (the first side) against the baseline's. The
    traces stay in TARE_HOME under the ids of the records, where `tare diff` finds them."""
    # Of one that fails in some rounds and is no slower there is nothing to see.
    bad = [case for case in report.bad if (case.regressions or case.leaks) and case.records]
    for number, case in enumerate(bad[:MOST_CASES], 1):
        spare: list[Path] = []
        tell(f"profiling what changed in {case.case.partition('/')[0]} ({number} of {min(len(bad), MOST_CASES)})")
        try:
            case.call_changes = _profile(case, sides, spare)
            case.call_changes_by = "profile"
        except TareError as error:
            report.notes.append(f"{case.case} could not be profiled: {error}")
        # Not before: a check that is interrupted finds them when it goes on.
        for path in spare:
            path.unlink()
    if len(bad) > MOST_CASES:
        report.notes.append(f"only {MOST_CASES} of {len(bad)} regressed cases were profiled")


def _profile(case: CaseChange, sides: Sequence[Profiled], spare: list[Path]) -> list[CallChange]:
    """What changed in the step of one case; profiles that are of no use afterwards are added to `spare`. What was
    found stays: who asks for the same report in another format waits for no profile."""
    kept = differences_path(*case.records)
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(kept.read_bytes(), type=list[CallChange])
    parsed = Case.parse(case.case)
    step = next((change for change in case.changes if change.metric == "gross"), None)
    grosses = (step.a, step.b) if step else (None, None)
    contexts: tuple[list[Context], list[Context]] = ([], [])
    for number in range(PROFILES):
        # The sides are now and before, the records before and now.
        for (executor, launcher), record, gross, found in zip(
            reversed(sides), case.records, grosses, contexts, strict=True
        ):
            name = f"{record}-{number}" if number else record
            # What an interrupted check has profiled is still there.
            path = profile_case(executor, parsed, name, stacks=False, launcher=launcher, again=False).trace
            found.append(Context(select_steps(read(path)), gross))
            if number:
                spare.append(path)
    differing = step_differences(*contexts, any(c.unit == "s" for c in case.regressions))
    # Without it, a second report only takes longer.
    with contextlib.suppress(OSError), replacing(kept) as partial:
        partial.write_bytes(msgspec.json.encode(differing))
    return differing


def step_differences(before: Sequence[Context], now: Sequence[Context], slower: bool) -> list[CallChange]:
    """What a step does otherwise than before, and what takes a good part of the time by which it changed, by as
    many profiles of each. Where it is `slower`, what takes more time than before comes first: what takes less is
    not why."""
    weighed = step_times_of(before, now)
    found = diff_traces(before[0], now[0], weighed)
    least = LEAST_OF_CHANGE * abs(found.after_step_s - found.before_step_s)
    slowed = grown(*weighed) if slower else []
    known = {one.name for one in slowed}
    listed = [
        one
        for one in (*found.kernels, *found.operators)
        if one.name not in known
        # Other calls are a fact, however little time they take.
        and (one.status not in ("slower", "faster") or abs(one.difference_s) >= least)
    ]
    if slower:
        listed.sort(key=lambda one: one.difference_s <= 0)
    return slowed + [_differing(one) for one in listed]


def grown(one: StepTimes, other: StepTimes) -> list[CallChange]:
    """The operators that a user calls, as often as before, and that take a good part of what a step takes longer:
    on a GPU with all that they launch, on a CPU with all that they call. A profile of a few steps is noisy: what
    grew less, or no more than it differs from step to step, is not named."""
    on_gpu = bool(other.kernels)
    was, now = (
        (one.device_outermost, other.device_outermost) if on_gpu else (one.host_outermost, other.host_outermost)
    )
    more = {
        name: now[name].seconds - before.seconds
        for name, before in was.items()
        if name in now and before.clearly_less(now[name])
    }
    share = DEVICE_SHARE if on_gpu else LEAST_SHARE
    least = max(share * one.step_s, (other.step_s - one.step_s) / 3)
    return [
        CallChange(
            kind="operator",
            name=name,
            status="slower",
            before_calls=_calls(was[name].calls),
            after_calls=_calls(now[name].calls),
            before_s=was[name].seconds,
            after_s=now[name].seconds,
        )
        for name in sorted(more, key=lambda name: -more[name])
        if _calls(was[name].calls) == _calls(now[name].calls) and more[name] >= least
    ]


def _calls(number: float) -> float:
    """A sum of shares of a step, without what rounding left."""
    return round(number, 6)


def _differing(change: TraceChange) -> CallChange:
    return CallChange(
        kind=change.kind,
        name=change.name,
        status=change.status,
        before_calls=_calls(change.before_calls),
        after_calls=_calls(change.after_calls),
        before_s=change.before_s,
        after_s=change.after_s,
    )
