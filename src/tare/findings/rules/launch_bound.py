"""The step is a long row of short kernels, and the host cannot launch them as fast as the device runs them."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.rules.host_bound import LOADING_OR_COMPILING, stretches
from tare.findings.script import waiting
from tare.trace.intervals import Intervals, difference, make, union
from tare.trace.tables import GRAPH, LAUNCH, Integers

FEWEST_LAUNCHES = 10
LEAST_SHARE = 0.15
# Within a graph a kernel begins when the one before it has ended: eleven workloads take as graphs what their
# kernels take on an H200, within a tenth, where queued ones begin 1 us and more after each other.
HANDOVER_NS = 100
REMEDY = "Capture the step in a CUDA graph, or compile it with torch.compile(mode='reduce-overhead')"


@rule(
    "launch-bound",
    sees="At least 10 launches a step, and 15 % of it or more would go if the kernels were launched as one graph.",
    remedy=f"{REMEDY}.",
)
def look(scene: Scene) -> Iterator[Hit]:
    calls = scene.trace.calls
    inside = scene.inside(calls)
    launches = np.flatnonzero(inside & (calls.kind == LAUNCH))
    graphs = int((inside & (calls.kind == GRAPH)).sum())
    if scene.per_step(len(launches)) < FEWEST_LAUNCHES:
        return
    # A graph replaces the host's way from launch to launch. What the host does besides stays: long stretches,
    # loading, compiling, and what waits for the device, which cannot be captured.
    waits = _waits(scene)
    kept = union(stretches(scene), scene.marked(LOADING_OR_COMPILING), _uncapturable(scene, waits))
    gone = difference(make([scene.timeline.start], [scene.timeline.end]), kept)
    edit = Edit(removed=[(int(start), int(end)) for start, end in gone], handover=HANDOVER_NS)
    gain = scene.price(edit)
    if gain < LEAST_SHARE * scene.step_s:
        return
    works = scene.works_of(launches)
    yield Hit(
        summary=f"the host takes longer to launch {scene.per_step(len(launches)):.0f} kernels a step "
        f"than the device to run them",
        evidence={
            "launches_per_step": scene.per_step(len(launches)),
            "graphs_per_step": scene.per_step(graphs),
            "median_kernel_us": float(np.median(scene.trace.device.duration[works])) / 1e3 if len(works) else 0.0,
            "step_as_graph_s": scene.step_s - gain,
            "waits_per_step": scene.per_step(len(waits)),
        },
        places=_places(scene, launches),
        gain_s=gain,
        remedy=_remedy(scene, waits),
        spans=[],
    )


def _waits(scene: Scene) -> Integers:
    """Calls within the steps that may hold the host until the device is done: no graph can hold them."""
    calls = scene.trace.calls
    rows = np.flatnonzero(waiting(scene.trace) & scene.inside(calls))
    return rows[~np.isin(rows, list(scene.script.closing))]


def _uncapturable(scene: Scene, waits: Integers) -> Intervals:
    """Host time of the operators that wait for the device."""
    calls = scene.trace.calls
    roots = scene.roots(calls.operator[waits])
    return union(scene.trace.operators.intervals(roots), calls.intervals(waits))


def _remedy(scene: Scene, waits: Integers) -> str | None:
    """What must be done first where the step waits for the device: capturing fails there, and compiling breaks."""
    if len(waits) == 0:
        return None
    # One operator may wait with several calls: a copy, and what closes it.
    count = len({_launcher(scene, row) for row in waits.tolist()})
    where = max(scene.places.of_calls(waits).items(), key=lambda found: len(found[1]))[0]
    first = f"First take out what waits for the device {scene.times(count)}, for no graph can hold it"
    return f"{first} (most often at {where}). Then {REMEDY[0].lower()}{REMEDY[1:]}."


def _places(scene: Scene, launches: Integers) -> list[Place]:
    """The lines and modules that launch, or the operators that a user calls, by their host time."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for row in launches.tolist():
        table, found = _launcher(scene, row)
        name = scene.trace.name(getattr(scene.trace, table), found)
        groups.setdefault(scene.places.line_of_call(row) or name, []).append((table, found))
    return [
        Place(
            where=where,
            count=scene.per_step(len(found)),
            seconds=sum(int(getattr(scene.trace, table).duration[row]) for table, row in set(found))
            / scene.steps
            / 1e9,
        )
        for where, found in groups.items()
    ]


def _launcher(scene: Scene, call: int) -> tuple[str, int]:
    """The outermost operator around a call, or the call itself: a table of the trace and its row."""
    operator = int(scene.trace.calls.operator[call])
    return ("operators", scene.root(operator)) if operator >= 0 else ("calls", call)
