"""The step is a long row of short kernels, and the host cannot launch them as fast as the device runs them."""

from collections.abc import Iterator

import numpy as np

from tare.findings.finding import Hit
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.findings.rules.host_bound import LOADING_OR_COMPILING, stretches
from tare.findings.scene import Scene
from tare.findings.script import waiting
from tare.trace.intervals import Intervals, difference, make, union
from tare.trace.tables import GRAPH, LAUNCH

FEWEST_LAUNCHES = 10
LEAST_SHARE = 0.15


@rule(
    "launch-bound",
    sees="At least 10 launches a step, and 15 % of it or more would go if the kernels were launched as one graph.",
    remedy="Capture the step in a CUDA graph, or compile it with torch.compile(mode='reduce-overhead').",
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
    kept = union(stretches(scene), scene.marked(LOADING_OR_COMPILING), _uncapturable(scene))
    gone = difference(make([scene.timeline.start], [scene.timeline.end]), kept)
    edit = Edit(removed=[(int(start), int(end)) for start, end in gone])
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
        },
        gain_s=gain,
        spans=[],
    )


def _uncapturable(scene: Scene) -> Intervals:
    """Host time of the operators that wait for the device."""
    calls = scene.trace.calls
    rows = np.flatnonzero(waiting(scene.trace) & scene.inside(calls))
    rows = rows[~np.isin(rows, list(scene.script.closing))]
    roots = scene.roots(calls.operator[rows])
    return union(scene.trace.operators.intervals(roots), calls.intervals(rows))
