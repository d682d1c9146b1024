"""Which operators and kernels two records call differently, from what their rounds have counted by name."""

from collections.abc import Mapping
from typing import Literal

from tare.guard.changes import Differing
from tare.records.figures import good_rounds
from tare.records.record import Record

What = Literal["operator", "kernel"]


def counted_differences(a: Record, b: Record) -> list[Differing]:
    """Nothing where a side has no names: a rung whose operators cannot be seen, or a record of an older tare."""
    found = []
    for what in ("kernel", "operator"):
        before, now = names(a, what), names(b, what)
        if before and now:
            found += name_differences(what, before, now)
    return found


def names(record: Record, what: What) -> dict[str, int]:
    """How often a step called each, by the first round that has counted."""
    for done in good_rounds(record):
        counted = done.operators if what == "operator" else done.kernels
        if counted:
            return counted
    return {}


def name_differences(what: What, before: Mapping[str, int], now: Mapping[str, int]) -> list[Differing]:
    """Those that are called more or less often, the largest difference first."""
    found = []
    for name in before.keys() | now.keys():
        a, b = before.get(name, 0), now.get(name, 0)
        if a == b:
            continue
        more: Literal["more calls", "fewer calls"] = "more calls" if b > a else "fewer calls"
        status: Literal["appeared", "vanished", "more calls", "fewer calls"]
        status = "appeared" if not a else "vanished" if not b else more
        found.append(Differing(what=what, name=name, status=status, before_calls=a, after_calls=b))
    return sorted(found, key=lambda one: (-abs(one.after_calls - one.before_calls), one.name))
