"""Two traces side by side, per step: operators of one name and shape, their host time and kernels; all kernels
by name."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tare.findings.context import Scene, merged, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.replay import Edit
from tare.trace.nesting import inherit, own_time
from tare.trace.tables import Integers, Trace

# Autograd's nodes and dispatcher's wrappers repeat what the operator in them does.
WRAPPERS = ("autograd::", "ProfilerStep", "Torch-Compiled", "TorchDynamo", "AOTDispatcher", "Pregraph")


@dataclass
class Operation:
    """One operator at one shape: how often a step calls it, its host time without children (with them, where only
    outermost operators are counted), how many kernels it launches a step, and their time."""

    name: str
    shape: str
    calls: float = 0.0
    self_s: float = 0.0
    launches: float = 0.0
    kernels: dict[str, float] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)

    @property
    def device_s(self) -> float:
        return sum(self.kernels.values())

    @property
    def device_s_per_call(self) -> float:
        return self.device_s / self.calls

    @property
    def label(self) -> str:
        return f"{self.name} {self.shape}" if self.shape else self.name


def operations(scene: Scene, whole: bool = False) -> dict[tuple[str, str], Operation]:
    """The operators of a trace's steps by name and shape; a kernel belongs to the innermost operator around it.

    With `whole`, only the operators that a user calls, with all that they launch: aten::conv2d, whatever library
    computes it.
    """
    trace, table = scene.trace, scene.trace.operators
    found: dict[tuple[str, str], Operation] = {}
    owner = outermost(scene.trace) if whole else np.arange(len(table))
    own = table.duration if whole else own_time(table.start, table.end, table.parent)
    of_row: dict[int, Operation] = {}
    for row in np.flatnonzero(scene.inside(table) & (owner == np.arange(len(table)))).tolist():
        name = trace.name(table, row)
        if name.startswith(WRAPPERS):
            continue
        text = trace.texts[int(table.dims[row])].decode(errors="replace") if table.dims[row] >= 0 else ""
        # Writers of traces put blanks in different places.
        shape = "".join(text.split())
        entry = found.setdefault((name, shape), Operation(name, shape))
        entry.calls += 1 / scene.steps
        entry.self_s += float(own[row]) / scene.steps / 1e9
        entry.rows.append(row)
        of_row[row] = entry
    device, calls = trace.device, trace.calls
    for work in np.flatnonzero(device.kernels & np.isin(device.call, list(scene.script.call_at))).tolist():
        operator = int(calls.operator[device.call[work]])
        launching = of_row.get(int(owner[operator])) if operator >= 0 else None
        if launching is not None:
            kernel = trace.name(device, work)
            taken = float(device.duration[work]) / scene.steps / 1e9
            launching.launches += 1 / scene.steps
            launching.kernels[kernel] = launching.kernels.get(kernel, 0.0) + taken
    return found


def outermost(trace: Trace) -> Integers:
    """For each operator the outermost around it that is no wrapper."""
    table = trace.operators
    wrapping = np.array([name.startswith(WRAPPERS) for name in trace.names] or [False], dtype=bool)
    above = table.parent
    free = (above < 0) | wrapping[table.name[np.maximum(above, 0)]] if len(table) else above < 0
    return inherit(np.where(free, np.arange(len(table)), -1), table.parent)


def kernel_times(scene: Scene) -> dict[str, tuple[float, float]]:
    """Launches and seconds a step of every kernel."""
    device = scene.trace.device
    found: dict[str, tuple[float, float]] = {}
    for work in np.flatnonzero(device.kernels & np.isin(device.call, list(scene.script.call_at))).tolist():
        count, seconds = found.get(scene.trace.name(device, work), (0.0, 0.0))
        taken = float(device.duration[work]) / 1e9
        found[scene.trace.name(device, work)] = (count + 1 / scene.steps, seconds + taken / scene.steps)
    return found


def pairs(before: Scene, after: Scene) -> Iterator[tuple[Operation, Operation]]:
    """The operators that a user calls and that launch kernels, before and now, of one name and shape."""
    old = operations(before, whole=True)
    for key, now in operations(after, whole=True).items():
        was = old.get(key)
        if was is not None and was.kernels and now.kernels:
            yield was, now


class Left(NamedTuple):
    """What an operator took before, as shares of what it takes now: of its kernels' time and of its host time."""

    device: float
    host: float = 1.0


def left(was: Operation, now: Operation) -> Left:
    """Per call. Host time under a profiler is unsteady: it counts only where there are more launches than before,
    which take host time for certain."""
    device = was.device_s_per_call / now.device_s_per_call
    if now.launches / now.calls < was.launches / was.calls + 1 or now.self_s <= 0:
        return Left(device)
    return Left(device, min((was.self_s / was.calls) / (now.self_s / now.calls), 1.0))


def slower_hit(after: Scene, summary: str, places: list[Place], shares: dict[int, Left]) -> Hit:
    """Operators that take longer than before, by row."""
    return Hit(
        summary=summary,
        evidence={"operators": len(places), "device_s_per_step": sum(place.seconds for place in places)},
        places=places,
        gain_s=_price(after, shares),
        spans=spans_of(after.trace.device, after.works_of(after.calls_under(np.array(list(shares))))),
    )


def _price(scene: Scene, shares: dict[int, Left]) -> float:
    """Seconds of a step that are given back if these operators took what they took before."""
    table, at = scene.trace.operators, scene.script.work_at
    works = scene.works_by(np.array(sorted(shares), dtype=np.int64))
    # Which part of the operator's host time goes does not matter: its launches come out of what is left.
    gone = [
        (int(table.start[row] + share.host * table.duration[row]), int(table.end[row]))
        for row, share in shares.items()
        if share.host < 1
    ]
    factors = {at[work]: shares[row].device for row, found in works.items() for work in found if work in at}
    return scene.price(Edit(removed=merged(gone), factors=factors))
