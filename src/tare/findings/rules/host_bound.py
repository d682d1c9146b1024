"""Long stretches in which the host computes and launches nothing, and the device runs dry (the TorchBench paper:
hf_BigBird)."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, merged
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.trace.intervals import Intervals, complement, covered_length, difference, make, union
from tare.trace.nesting import inherit
from tare.trace.tables import Integers, Mask

SHORTEST_NS = 100_000
# A stretch is so many times as long as the usual way from one call to the next.
TIMES_USUAL = 8
# ... and this share of the step, as profiled.
LEAST_SHARE = 0.04
# Host time that has a rule of its own.
LOADING_OR_COMPILING = r"^enumerate\(DataLoader\)#|dynamo_timed|^TorchDynamo Cache Lookup"
OTHERS = rf"{LOADING_OR_COMPILING}|^Optimizer\.(step|zero_grad)#"


@rule(
    "host-bound",
    sees="The device runs dry while Python or operators on the CPU take 4 % of the step (100 µs) or more.",
    remedy="Move that work to the device, hoist it out of the step, or do it while the device is busy.",
)
def look(scene: Scene) -> Iterator[Hit]:
    found = stretches(scene)
    if len(found) == 0:
        return
    spans = [(int(start), int(end)) for start, end in found]
    seconds = float((found[:, 1] - found[:, 0]).sum()) / scene.steps / 1e9
    yield Hit(
        summary=f"stretches in which the host launches nothing: {scene.per_step(len(found)):.3g} a step",
        evidence={"stretches_per_step": scene.per_step(len(found)), "host_s_per_step": seconds},
        places=[_place(scene, start, end) for start, end in spans],
        gain_s=scene.price(Edit(removed=merged(spans))),
        spans=spans[:200],
    )


def stretches(scene: Scene) -> Intervals:
    """Host time between two calls, long, mostly without device work, within one step, and not another rule's."""
    calls, device, steps = scene.trace.calls, scene.trace.device, scene.trace.steps
    inside = np.flatnonzero(scene.inside(calls))
    if len(inside) < 2:
        return make([], [])
    window = scene.timeline.start, scene.timeline.end
    free = complement(make(calls.start[inside], calls.end[inside]), *window)
    usual = float(np.median(free[:, 1] - free[:, 0])) if len(free) else 0.0
    free = _without_edges(free, steps.start, steps.end)
    free = free[~_handed_over(scene, free)]
    shortest = max(SHORTEST_NS, TIMES_USUAL * usual, LEAST_SHARE * (window[1] - window[0]) / scene.steps)
    long = free[(free[:, 1] - free[:, 0]) >= shortest]
    busy = covered_length(device.intervals(), long[:, 0], long[:, 1])
    long = long[busy < (long[:, 1] - long[:, 0]) / 2]
    others = union(scene.marked(OTHERS), _dispatching(scene))
    # Where another rule has the greater part, it has the rest as well.
    long = long[covered_length(others, long[:, 0], long[:, 1]) < (long[:, 1] - long[:, 0]) / 2]
    left = difference(long, others)
    return _in_every_step(scene, left[(left[:, 1] - left[:, 0]) >= shortest])


def _without_edges(free: Intervals, starts: Integers, ends: Integers) -> Intervals:
    """Stretches that reach a step's edge hold the loop around it, and the profiler itself."""
    edges = np.sort(np.concatenate([starts, ends]))
    holds = np.searchsorted(edges, free[:, 1], side="right") > np.searchsorted(edges, free[:, 0])
    found: Intervals = free[~holds]
    return found


def _dispatching(scene: Scene) -> Intervals:
    """Outermost operators that launch something: their host time is the framework's; launch-bound prices it."""
    table, calls = scene.trace.operators, scene.trace.calls
    launching = calls.operator[scene.trace.device.call[scene.trace.device.call >= 0]]
    top = inherit(np.where(table.depth == 0, np.arange(len(table)), -1), table.parent)
    rows = np.unique(top[launching[launching >= 0]])
    steps = scene.matching(table, r"^(?:ProfilerStep|tare::step)#")
    return table.intervals(rows[~np.isin(rows, steps)])


def _handed_over(scene: Scene, free: Intervals) -> Mask:
    """Stretches at whose end another thread goes on (autograd's), or only the profiler's own wait follows."""
    calls = scene.trace.calls
    rows = np.flatnonzero(scene.inside(calls))
    before = rows[np.maximum(np.searchsorted(calls.start[rows], free[:, 0]) - 1, 0)]
    after = rows[np.minimum(np.searchsorted(calls.start[rows], free[:, 1]), len(rows) - 1)]
    closing = np.isin(after, list(scene.script.closing))
    return np.asarray(closing | (calls.thread[before] != calls.thread[after]), dtype=bool)


def _in_every_step(scene: Scene, found: Intervals) -> Intervals:
    """What happened once is an accident; a habit shows at one place in every step."""
    places: dict[str, list[int]] = {}
    for index, (start, end) in enumerate(found.tolist()):
        places.setdefault(_place(scene, start, end).where, []).append(index)
    kept = [index for rows in places.values() if len(rows) >= scene.steps for index in rows]
    return make(found[kept, 0], found[kept, 1])


def _place(scene: Scene, start: int, end: int) -> Place:
    """The user's line in the middle of it, or the operator that took most of it."""
    calls, operators = scene.trace.calls, scene.trace.operators
    before = int(np.searchsorted(calls.start, start) - 1)
    thread = int(calls.thread[max(before, 0)])
    where = scene.places.at(thread, (start + end) // 2)
    within = np.flatnonzero((operators.start >= start) & (operators.end <= end) & (operators.depth == 0))
    if len(within):
        longest = int(within[np.argmax(operators.duration[within])])
        if operators.duration[longest] > (end - start) / 2:
            name = scene.trace.name(operators, longest)
            where = f"{where}: {name} on the host" if where else f"{name} on the host"
    if not where and before >= 0:
        where = f"after {scene.places.path(int(calls.operator[before])) or scene.trace.name(calls, before)}"
    return Place(where=where, count=1 / scene.steps, seconds=(end - start) / scene.steps / 1e9)
