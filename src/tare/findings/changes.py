"""What is different between two traces, per step: operators and kernels that appeared, vanished, slowed or sped
up."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from tare.findings.amounts import Amount, Amounts, Weighed, pooled, weigh
from tare.findings.context import Scene
from tare.findings.find import find
from tare.findings.finding import Finding
from tare.findings.registry import all_rules

Status = Literal["appeared", "vanished", "slower", "faster", "more calls", "fewer calls"]
# Device time is steady: a tenth more per call is a change. Host time under a profiler is not.
DEVICE_RATIO, HOST_RATIO = 1.1, 1.5
# What changes the step by less than this share is not listed.
LEAST_SHARE = 0.001
# What changes it by as much is a change by however little a call differs: a kernel that is the whole step.
NOTICED_SHARE = 0.02
NONE = Amount(0.0, np.zeros(1))


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One operator or kernel. Calls are those of the mean step, seconds those of the median one, on the clock of
    the device (of an operator, its kernels) or of the host."""

    what: Literal["operator", "kernel"]
    name: str
    status: Status
    clock: Literal["device", "host"]
    before_calls: float
    after_calls: float
    before_s: float
    after_s: float

    @property
    def difference_s(self) -> float:
        return self.after_s - self.before_s


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """`step_s` are the steps as `explain` has them: gross, or the recorded steps (`profiled`) where a trace does
    not know its gross. `device_s` is the part of it in which the device (without one: an operator) computes; all
    that is listed lies within `step_s`. Findings are those that need both."""

    before: str
    after: str
    profiled: bool
    has_device: bool
    before_step_s: float
    after_step_s: float
    before_device_s: float
    after_device_s: float
    kernels: list[Change]
    operators: list[Change]
    findings: list[Finding]


def changes(before: Scene, after: Scene, weighed: tuple[Weighed, Weighed] | None = None) -> Changes:
    """`weighed` are both with further recordings of the same programs."""
    one, other = weighed or weigh_both([before], [after])
    step_s = max(one.step_s, other.step_s)
    pair_rules = [rule for rule in all_rules().values() if rule.pair]
    return Changes(
        before=before.trace.source,
        after=after.trace.source,
        profiled=one.profiled,
        has_device=before.trace.has_device or after.trace.has_device,
        before_step_s=one.step_s,
        after_step_s=other.step_s,
        before_device_s=one.net_s,
        after_device_s=other.net_s,
        kernels=_compare("kernel", "device", one.kernels, other.kernels, step_s),
        operators=_operators(one, other, step_s),
        findings=find(after, before, pair_rules),
    )


def weigh_both(before: Sequence[Scene], after: Sequence[Scene]) -> tuple[Weighed, Weighed]:
    """Recordings of two programs on the same terms: all as profiled, where one does not know its gross."""
    known = all(scene.gross_s is not None for scene in (*before, *after))
    one, other = (
        pooled([weigh(scene.trace, scene.gross_s if known else None) for scene in side])
        for side in (before, after)
    )
    return one, other


def _operators(before: Weighed, after: Weighed, step_s: float) -> list[Change]:
    """By device time; those that never launched anything by their own host time."""
    busy = {name for side in (before, after) for name, one in side.device.items() if one.each.any()}
    old, new = ({name: one for name, one in side.device.items() if name in busy} for side in (before, after))
    found = _compare("operator", "device", old, new, step_s)
    old, new = ({name: one for name, one in side.host.items() if name not in busy} for side in (before, after))
    found += _compare("operator", "host", old, new, step_s)
    return sorted(found, key=lambda change: -abs(change.difference_s))


def _compare(
    what: Literal["operator", "kernel"],
    clock: Literal["device", "host"],
    before: Amounts,
    after: Amounts,
    step_s: float,
) -> list[Change]:
    found = []
    for name in before.keys() | after.keys():
        old, new = before.get(name, NONE), after.get(name, NONE)
        difference = abs(new.seconds - old.seconds)
        ratio = HOST_RATIO
        if clock == "device":
            ratio = 1.0 if difference >= NOTICED_SHARE * step_s else DEVICE_RATIO
        status = _status(old, new, ratio)
        if status is None or (difference < LEAST_SHARE * step_s and status not in ("appeared", "vanished")):
            continue
        calls = {"before_calls": old.calls, "after_calls": new.calls}
        times = {"before_s": old.seconds, "after_s": new.seconds}
        found.append(Change(what=what, name=name, status=status, clock=clock, **calls, **times))
    return sorted(found, key=lambda change: (-abs(change.difference_s), change.name))


def _status(old: Amount, new: Amount, ratio: float) -> Status | None:
    if old.calls == 0:
        return "appeared"
    if new.calls == 0:
        return "vanished"
    if round(new.calls, 3) != round(old.calls, 3):
        # Other calls than before: a time per call would compare what is not the same.
        return "more calls" if new.calls > old.calls else "fewer calls"
    # What differs as much between two steps of one trace is no difference between two traces.
    if new.seconds > ratio * old.seconds and old.clearly_less(new):
        return "slower"
    return "faster" if old.seconds > ratio * new.seconds and new.clearly_less(old) else None
