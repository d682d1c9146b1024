"""What is different between two traces, per step: operators and kernels that appeared, vanished, slowed or sped
up."""

from typing import Literal

import msgspec

from tare.findings.compared import kernel_times, operations
from tare.findings.find import find
from tare.findings.finding import Finding
from tare.findings.registry import all_rules
from tare.findings.scene import Scene

Status = Literal["appeared", "vanished", "slower", "faster", "more calls", "fewer calls"]
# Device time is steady: a tenth more per call is a change. Host time under a profiler is not.
DEVICE_RATIO, HOST_RATIO = 1.1, 1.5
# What changes the step by less than this share is not listed.
LEAST_SHARE = 0.001


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One operator or kernel. Seconds and calls are per step; of an operator on a device its kernels' time."""

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
    """`step_s` are the steps as profiled, or gross where the traces know it; findings are those that need both."""

    before: str
    after: str
    before_step_s: float
    after_step_s: float
    before_device_s: float
    after_device_s: float
    kernels: list[Change]
    operators: list[Change]
    findings: list[Finding]


def changes(before: Scene, after: Scene) -> Changes:
    least = LEAST_SHARE * max(before.step_s, after.step_s)
    one, other = kernel_times(before), kernel_times(after)
    pair_rules = [rule for rule in all_rules().values() if rule.pair]
    return Changes(
        before=before.trace.source,
        after=after.trace.source,
        before_step_s=before.step_s,
        after_step_s=after.step_s,
        before_device_s=sum(seconds for _, seconds in one.values()),
        after_device_s=sum(seconds for _, seconds in other.values()),
        kernels=_compare("kernel", "device", one, other, least),
        operators=_operators(before, after, least),
        findings=find(after, before, pair_rules),
    )


def _operators(before: Scene, after: Scene, least: float) -> list[Change]:
    """By device time; those that never launched anything by their own host time."""
    device: list[dict[str, tuple[float, float]]] = []
    host: list[dict[str, tuple[float, float]]] = []
    for scene in (before, after):
        launching: dict[str, tuple[float, float]] = {}
        silent: dict[str, tuple[float, float]] = {}
        for entry in operations(scene).values():
            calls, seconds = launching.get(entry.name, (0.0, 0.0))
            launching[entry.name] = (calls + entry.calls, seconds + entry.device_s)
            calls, seconds = silent.get(entry.name, (0.0, 0.0))
            silent[entry.name] = (calls + entry.calls, seconds + entry.self_s)
        device.append(launching)
        host.append(silent)
    busy = {name for table in device for name, (_, seconds) in table.items() if seconds}
    old, new = ({name: value for name, value in table.items() if name in busy} for table in device)
    found = _compare("operator", "device", old, new, least)
    old, new = ({name: value for name, value in table.items() if name not in busy} for table in host)
    found += _compare("operator", "host", old, new, least)
    return sorted(found, key=lambda change: -abs(change.difference_s))


def _compare(
    what: Literal["operator", "kernel"],
    clock: Literal["device", "host"],
    before: dict[str, tuple[float, float]],
    after: dict[str, tuple[float, float]],
    least: float,
) -> list[Change]:
    found = []
    for name in before.keys() | after.keys():
        old, new = before.get(name, (0.0, 0.0)), after.get(name, (0.0, 0.0))
        status = _status(old, new, DEVICE_RATIO if clock == "device" else HOST_RATIO)
        if status is None or (abs(new[1] - old[1]) < least and status not in ("appeared", "vanished")):
            continue
        numbers = {"before_calls": old[0], "after_calls": new[0], "before_s": old[1], "after_s": new[1]}
        found.append(Change(what=what, name=name, status=status, clock=clock, **numbers))
    return sorted(found, key=lambda change: (-abs(change.difference_s), change.name))


def _status(old: tuple[float, float], new: tuple[float, float], ratio: float) -> Status | None:
    if old[0] == 0:
        return "appeared"
    if new[0] == 0:
        return "vanished"
    if round(new[0], 3) != round(old[0], 3):
        # Other calls than before: a time per call would compare what is not the same.
        return "more calls" if new[0] > old[0] else "fewer calls"
    if new[1] > ratio * old[1]:
        return "slower"
    return "faster" if old[1] > ratio * new[1] else None
