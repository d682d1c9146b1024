"""What a regression changed in the step itself: both versions are profiled, and their traces compared."""

from collections.abc import Callable, Sequence

from tare.cases.case import Case
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.explain import profile_case
from tare.findings.changes import Change, changes
from tare.findings.compared import operations
from tare.findings.scene import Scene
from tare.guard.changes import CaseChange, Differing, Report
from tare.trace.read import read

# A night that is all red needs no fifty profiles.
MOST_CASES = 4
# An operator that grew by less than this share of the step is not named.
LEAST_SHARE = 0.03

Profiled = tuple[LocalExecutor, Launcher]


def add_profiles(report: Report, sides: Sequence[Profiled], tell: Callable[[str], None]) -> None:
    """Of each regressed case, what appeared, vanished, slowed: now (the first side) against the baseline's. The
    traces stay in TARE_HOME under the ids of the records, where `tare diff` finds them."""
    bad = [case for case in report.bad if case.state == "compared" and case.records]
    for number, case in enumerate(bad[:MOST_CASES], 1):
        tell(f"profiling what changed in {case.case.partition('/')[0]} ({number} of {min(len(bad), MOST_CASES)})")
        try:
            case.differing = _profile(case, sides)
            case.differing_by = "profile"
        except TareError as error:
            report.notes.append(f"{case.case} could not be profiled: {error}")
    if len(bad) > MOST_CASES:
        report.notes.append(f"only {MOST_CASES} of {len(bad)} regressed cases were profiled")


def _profile(case: CaseChange, sides: Sequence[Profiled]) -> list[Differing]:
    parsed = Case.parse(case.case)
    scenes = []
    # The sides are now and before, the records before and now.
    for (executor, launcher), record in zip(reversed(sides), case.records, strict=True):
        path, _ = profile_case(executor, parsed, record, stacks=False, launcher=launcher)
        scenes.append(Scene(read(path), None))
    found = changes(scenes[0], scenes[1])
    listed = [_differing(one) for one in (*found.kernels, *found.operators)]
    slowed = grown(scenes[0], scenes[1])
    known = {one.name for one in slowed}
    return slowed + [one for one in listed if one.name not in known]


def grown(before: Scene, now: Scene) -> list[Differing]:
    """On a CPU, the operators that a user calls, as often as before, and that take a good part of what the step
    takes longer. A profile of a few steps is noisy: what grew less is not named."""
    if len(now.trace.device):
        return []
    old, new = _whole_operators(before), _whole_operators(now)
    more = {name: new[name][1] - old[name][1] for name in old.keys() & new.keys()}
    least = max(LEAST_SHARE * before.step_s, sum(more.values()) / 3)
    return [
        Differing(
            what="operator", name=name, status="slower",
            before_calls=old[name][0], after_calls=new[name][0], before_s=old[name][1], after_s=new[name][1],
        )
        for name in sorted(more, key=lambda name: -more[name])
        if old[name][0] == new[name][0] and more[name] >= least
    ]  # fmt: skip


def _whole_operators(scene: Scene) -> dict[str, tuple[float, float]]:
    """Calls and seconds a step of each operator that a user calls, with all that it calls itself."""
    found: dict[str, tuple[float, float]] = {}
    for each in operations(scene, whole=True).values():
        calls, taken = found.get(each.name, (0.0, 0.0))
        found[each.name] = (calls + each.calls, taken + each.self_s)
    return {name: (_calls(calls), taken) for name, (calls, taken) in found.items()}


def _calls(number: float) -> float:
    """A sum of shares of a step, without what rounding left."""
    return round(number, 6)


def _differing(change: Change) -> Differing:
    return Differing(
        what=change.what,
        name=change.name,
        status=change.status,
        before_calls=_calls(change.before_calls),
        after_calls=_calls(change.after_calls),
        before_s=change.before_s,
        after_s=change.after_s,
    )
