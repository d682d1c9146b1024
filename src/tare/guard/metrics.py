"""The metrics that are watched. A new one is one entry here: a name, a unit, and what a round says of it.

All of them are better when they are lower. A metric that no round has is absent. `exact` ones are the same in
every round of one version: they need no statistics, and any increase counts.
"""

from collections.abc import Callable, Iterable
from statistics import median
from typing import Literal, NamedTuple

from tare.errors import unknown
from tare.records.figures import clean_step_seconds, good_rounds
from tare.records.record import Record, Round, SeriesKind

Unit = Literal["s", "B", "J", ""]

# The threshold of the TorchBench paper, and the margin within which nobody cares.
THRESHOLD = 0.07
MARGIN = 0.02
# A round's quietest moments are this share of its blocks, if it has so many.
QUIET = 0.05
QUIET_FROM = 20


class Metric(NamedTuple):
    name: str
    title: str
    unit: Unit
    of_round: Callable[[Round], float | None]
    exact: bool = False
    threshold: float = THRESHOLD
    margin: float = MARGIN
    # What it is when it is lower, and when it is higher.
    words: tuple[str, str] = ("less", "more")
    # Another that looks at the same thing: where one of them is suspected, both are confirmed or not.
    twin: str = ""
    # Whether only a device beside the CPU has it.
    beside_cpu: bool = False


def _timed(name: str, title: str, of_round: Callable[[Round], float | None], twin: str = "") -> Metric:
    return Metric(name, title, "s", of_round, words=("faster", "slower"), twin=twin)


def _counted(name: str, title: str, unit: Unit = "", beside_cpu: bool = False) -> Metric:
    """A figure that a round may carry among its counts."""
    return Metric(
        name,
        title,
        unit,
        lambda done: done.counts.get(name),
        exact=True,
        threshold=0.0,
        margin=0.0,
        beside_cpu=beside_cpu,
    )


def _step(kind: SeriesKind) -> Callable[[Round], float | None]:
    def of_round(done: Round) -> float | None:
        seconds = clean_step_seconds(done, kind)
        return median(seconds) if seconds else None

    return of_round


def _quiet_step(done: Round) -> float | None:
    """What disturbs a shared machine comes and goes within seconds and makes it slower: by a third, where a
    neighbour has the other half of a core. The median of a short round is then that of either state; its fastest
    steps are nearly always those of the quiet one. Of few blocks they would be the luckiest instead."""
    seconds = sorted(clean_step_seconds(done, "pipelined"))
    return seconds[int(QUIET * len(seconds))] if len(seconds) >= QUIET_FROM else None


METRICS: tuple[Metric, ...] = (
    _timed("gross", "time of one step, back to back", _step("pipelined"), twin="gross_p5"),
    _timed("gross_p5", "the same in the quietest moments of a round", _quiet_step, twin="gross"),
    _timed("latency", "time of one step alone", _step("latency")),
    _timed("preparation", "preparation, cold", lambda done: done.prepare_s if done.cache != "warm" else None),
    _timed("preparation_warm", "preparation, warm", lambda done: done.prepare_s if done.cache == "warm" else None),
    Metric("host_peak", "peak host memory", "B", lambda done: done.host_memory.peak if done.host_memory else None),
    Metric(
        "device_peak",
        "peak device memory",
        "B",
        lambda done: done.device_memory.reserved_peak if done.device_memory else None,
        beside_cpu=True,
    ),
    Metric(
        "energy",
        "energy of one step",
        "J",
        lambda done: done.telemetry.energy_j_per_step if done.telemetry else None,
        beside_cpu=True,
    ),
    _counted("kernels", "kernels a step"),
    _counted("operators", "operators a step"),
    _counted("bytes_copied", "bytes copied a step", "B"),
    _counted("synchronisations", "synchronisations a step"),
    _counted("graph_breaks", "graph breaks"),
    _counted("allocations", "allocations a step", beside_cpu=True),
)

NAMES: tuple[str, ...] = tuple(metric.name for metric in METRICS)


def get_metric(name: str, where: str = "") -> Metric:
    for metric in METRICS:
        if metric.name == name:
            return metric
    raise unknown("metric", name, NAMES, where)


def chosen(names: Iterable[str] | None) -> tuple[Metric, ...]:
    """The metrics of these names; all of them for None."""
    return METRICS if names is None else tuple(get_metric(name) for name in names)


def values(record: Record, metric: Metric) -> dict[int, float]:
    """What each good round says of a metric, by the round's index; empty where it is absent."""
    found = {done.index: metric.of_round(done) for done in good_rounds(record)}
    return {index: float(value) for index, value in found.items() if value is not None}
