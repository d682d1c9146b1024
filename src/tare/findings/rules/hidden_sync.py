"""The host waits for the device in the middle of a step, without having said so: item(), nonzero(), printing."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.rules.parameter_ping_pong import FEWEST, there_and_back
from tare.trace.counting import types
from tare.trace.tables import COPY, DEVICE_TO_HOST, Integers

# What comes back is a number or a few to print; more is a result that somebody wants.
FEW_BYTES = 1024
# Operators whose result is a truth value, or one for each element.
TRUTHS = {
    "all", "any", "_is_all_true", "_is_any_true", "eq", "ne", "lt", "le", "gt", "ge", "isclose",
    "isfinite", "isnan", "isinf", "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_not", "__and__", "__or__",
}  # fmt: skip


@rule(
    "hidden-sync",
    sees="A value of at most 1 KiB is fetched from the device within the step (item, nonzero, a mask, printing).",
    remedy="Keep the decision on the device (torch.where, a masked sum) or fetch the value steps later or rarely.",
)
def look(scene: Scene) -> Iterator[Hit]:
    found = {where: rows for where, rows in by_place(scene).items() if len(rows) <= scene.steps}
    if found:
        yield hit(scene, found, "is waited for in the middle of the step")


def by_place(scene: Scene) -> dict[str, list[int]]:
    """Waiting calls that fetch a small value, by place; what only closes a copy to the device is not one."""
    calls, device = scene.trace.calls, scene.trace.device
    fetching = (device.kind == COPY) & (device.direction == DEVICE_TO_HOST) & (device.bytes <= FEW_BYTES)
    fetching &= device.call >= 0
    owners = calls.operator[device.call[fetching]]
    waits = scene.waits
    small = np.isin(calls.operator[waits], owners[owners >= 0])
    if scene.per_step(len(there_and_back(scene)[0])) >= FEWEST:
        # Parameters on their way to the host and back: small ones among them are no values that somebody asks for.
        asking = scene.calls_under(scene.operators("aten::item", "aten::is_nonzero", "aten::nonzero"))
        small &= np.isin(waits, asking)
    found = scene.places.of_calls(waits[small])
    # A value that is fetched now and then (a log every hundred steps) is no habit.
    return {where: rows for where, rows in found.items() if scene.in_every_step(calls, rows)}


def hit(scene: Scene, found: dict[str, list[int]], what: str, checks: bool = False) -> Hit:
    """`checks`: with a truth value that is fetched, the comparisons go that only serve it."""
    calls = scene.trace.calls
    waits = np.array(sorted(row for rows in found.values() for row in rows), dtype=np.int64)
    fetching = _fetching(scene, waits)
    whole = _whole(scene, waits, checks)
    rows = np.array(sorted({row for group in whole for row in group}), dtype=np.int64)
    # The waits and fetches go; and of the operators that go, all.
    gone = np.unique(np.concatenate([waits, fetching, scene.calls_under(rows)]))
    names = sorted({_operator(scene, int(row)) for row in waits.tolist()})
    return Hit(
        summary=f"{scene.times(len(waits))} a value {what} ({', '.join(names[:3])})",
        evidence={
            "waits_per_step": scene.per_step(len(waits)),
            "waiting_s_per_step": float(calls.duration[waits].sum()) / scene.steps / 1e9,
        },
        places=[
            Place(
                where=where,
                count=scene.per_step(len(rows)),
                seconds=float(calls.duration[rows].sum()) / scene.steps / 1e9,
            )
            for where, rows in found.items()
        ],
        gain_s=scene.price(scene.drop(gone, scene.around.spans(whole))),
        spans=spans_of(calls, waits),
    )


def _fetching(scene: Scene, waits: Integers) -> Integers:
    """The copying calls of the operators that wait."""
    calls = scene.trace.calls
    owners = np.unique(calls.operator[waits])
    copying = scene.trace.device.call[scene.trace.device.copies]
    return copying[np.isin(calls.operator[copying], owners[owners >= 0]) & (copying >= 0)]


def _whole(scene: Scene, waits: Integers, checks: bool) -> list[list[int]]:
    """Operators that go as a whole: those that do nothing but fetch (aten::item), and the search for the places of
    a mask (aten::nonzero, within y[mask] too), of which nobody needs anything if the mask stays on the device."""
    kind = scene.trace.device.kind
    owners = np.unique(scene.trace.calls.operator[waits])
    roots = scene.works_by(scene.roots(owners))
    fetching = [root for root, works in roots.items() if (kind[works] == COPY).all()]
    searches = np.unique(scene.owners(scene.operators("aten::nonzero"))[owners[owners >= 0]])
    groups = [_check(scene, root) if checks else [root] for root in fetching]
    return groups + [[int(row)] for row in searches[searches >= 0]]


def _check(scene: Scene, fetching: int) -> list[int]:
    """An operator that fetches a truth value, and those straight before it that compute one."""
    group = [fetching]
    if "bool" in types(scene.trace, fetching)[:1]:
        while (before := scene.around.before(group[0])) >= 0 and _is_truth(scene, before):
            group.insert(0, before)
    return group


def _is_truth(scene: Scene, row: int) -> bool:
    return scene.trace.name(scene.trace.operators, row).removeprefix("aten::") in TRUTHS


def _operator(scene: Scene, call: int) -> str:
    """The outermost operator that the user called: aten::item rather than aten::_local_scalar_dense."""
    roots = scene.roots(scene.trace.calls.operator[call : call + 1])
    return scene.trace.name(scene.trace.operators, int(roots[0])) if len(roots) else "a synchronisation"
