"""The host waits for the device in the middle of a step, without having said so: item(), nonzero(), printing."""

from collections.abc import Iterator

import numpy as np

from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.rules.parameter_ping_pong import FEWEST, there_and_back
from tare.findings.scene import Scene, merged, spans_of
from tare.trace.tables import COPY, DEVICE_TO_HOST, Integers

# What comes back is a number or a few to print; more is a result that somebody wants.
FEW_BYTES = 1024


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


def hit(scene: Scene, found: dict[str, list[int]], what: str) -> Hit:
    calls, device = scene.trace.calls, scene.trace.device
    waits = np.array(sorted(row for rows in found.values() for row in rows), dtype=np.int64)
    fetches = scene.works_of(_fetching(scene, waits))
    launching = np.unique(device.call[fetches])
    pure = _only_fetching(scene, waits)
    edit = Edit(
        removed=merged(spans_of(calls, np.union1d(waits, launching), most=10**9) + pure),
        unwaited=frozenset(scene.script.call_at[c] for c in np.union1d(waits, launching).tolist()),
        factors={scene.script.work_at[w]: 0.0 for w in fetches.tolist()},
    )
    names = sorted({_operator(scene, int(row)) for row in waits.tolist()})
    return Hit(
        summary=f"{scene.per_step(len(waits)):.0f} times a step a value {what} ({', '.join(names[:3])})",
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
        gain_s=scene.price(edit),
        spans=spans_of(calls, waits),
    )


def _fetching(scene: Scene, waits: Integers) -> Integers:
    """The copying calls of the operators that wait."""
    calls = scene.trace.calls
    owners = np.unique(calls.operator[waits])
    copying = scene.trace.device.call[scene.trace.device.copies]
    return copying[np.isin(calls.operator[copying], owners[owners >= 0]) & (copying >= 0)]


def _only_fetching(scene: Scene, waits: Integers) -> list[tuple[int, int]]:
    """The host time of the operators that do nothing but fetch (aten::item): they go as a whole."""
    table, kind = scene.trace.operators, scene.trace.device.kind
    roots = scene.works_by(scene.roots(np.unique(scene.trace.calls.operator[waits])))
    pure = [root for root, works in roots.items() if (kind[works] == COPY).all()]
    return [(int(table.start[root]), int(table.end[root])) for root in pure]


def _operator(scene: Scene, call: int) -> str:
    """The outermost operator that the user called: aten::item rather than aten::_local_scalar_dense."""
    roots = scene.roots(scene.trace.calls.operator[call : call + 1])
    return scene.trace.name(scene.trace.operators, int(roots[0])) if len(roots) else "a synchronisation"
