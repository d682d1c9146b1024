"""The metrics that the guard watches, and which of them two sets of records have. A new metric is one entry here.

Lower is better for all of them. `exact` metrics are equal in every round of one version: they need no statistics,
and any increase counts.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Literal, NamedTuple

from tare.cases.case import Case
from tare.errors import BadInput, unknown
from tare.records.figures import clean_step_seconds, good_rounds
from tare.records.record import Record, Round, SeriesKind

Unit = Literal["s", "B", "J", ""]
OfRound = Callable[[Round], float | None]
RecordPairs = Sequence[tuple[Record, Record]]

# The threshold of the TorchBench paper, and the margin within which two figures count as the same.
THRESHOLD = 0.07
MARGIN = 0.02
# The percentile of gross_p5, and the fewest blocks for which it is computed.
P5 = 0.05
MIN_P5_BLOCKS = 20


class Metric(NamedTuple):
    name: str
    title: str
    unit: Unit
    of_round: OfRound
    exact: bool = False
    threshold: float = THRESHOLD
    margin: float = MARGIN
    # The words for "lower" and "higher".
    words: tuple[str, str] = ("less", "more")
    # Another metric of the same quantity: where one of them is suspected, both are measured again.
    related: str = ""
    # Whether a case on the CPU cannot have it.
    device_only: bool = False


def _timed(name: str, title: str, of_round: OfRound, related: str = "") -> Metric:
    return Metric(name, title, "s", of_round, words=("faster", "slower"), related=related)


def _counted(name: str, title: str, unit: Unit = "", device_only: bool = False) -> Metric:
    """A figure among the counts of a round."""
    return Metric(
        name, title, unit, lambda round_: round_.counts.get(name),
        exact=True, threshold=0.0, margin=0.0, device_only=device_only,
    )  # fmt: skip


def _median_step(kind: SeriesKind) -> OfRound:
    def of_round(round_: Round) -> float | None:
        seconds = clean_step_seconds(round_, kind)
        return median(seconds) if seconds else None

    return of_round


def _p5_step(round_: Round) -> float | None:
    """Disturbances of a shared machine last seconds and slow a step down, by a third where a neighbour has the
    other half of a core. The median of a short round is that of either state; its 5th percentile is nearly always
    that of the undisturbed one. In few blocks it would be the luckiest block instead."""
    seconds = sorted(clean_step_seconds(round_, "pipelined"))
    return seconds[int(P5 * len(seconds))] if len(seconds) >= MIN_P5_BLOCKS else None


METRICS: tuple[Metric, ...] = (
    _timed("gross", "time of one step, back to back", _median_step("pipelined"), related="gross_p5"),
    _timed("gross_p5", "5th percentile of the same within a round", _p5_step, related="gross"),
    _timed("latency", "time of one step alone", _median_step("latency")),
    _timed("preparation", "preparation, cold", lambda r: r.prepare_s if r.cache != "warm" else None),
    _timed("preparation_warm", "preparation, warm", lambda r: r.prepare_s if r.cache == "warm" else None),
    Metric("host_peak", "peak host memory", "B", lambda r: r.host_memory.peak if r.host_memory else None),
    Metric(
        "device_peak",
        "peak device memory",
        "B",
        lambda r: r.device_memory.reserved_peak if r.device_memory else None,
        device_only=True,
    ),
    Metric(
        "energy",
        "energy of one step",
        "J",
        lambda r: r.telemetry.energy_j_per_step if r.telemetry else None,
        device_only=True,
    ),
    _counted("kernels", "kernels a step"),
    _counted("operators", "operators a step"),
    _counted("bytes_copied", "bytes copied a step", "B"),
    _counted("synchronisations", "synchronisations a step"),
    _counted("graph_breaks", "graph breaks"),
    _counted("allocations", "allocations a step", device_only=True),
)

NAMES: tuple[str, ...] = tuple(metric.name for metric in METRICS)


def get_metric(name: str, where: str = "") -> Metric:
    for metric in METRICS:
        if metric.name == name:
            return metric
    raise unknown("metric", name, NAMES, where)


def get_metrics(names: Iterable[str] | None) -> tuple[Metric, ...]:
    """The metrics of these names; all of them for None."""
    return METRICS if names is None else tuple(get_metric(name) for name in names)


def values(record: Record, metric: Metric) -> dict[int, float]:
    """The metric of each good round that has it, by the round's index."""
    figures = {round_.index: metric.of_round(round_) for round_ in good_rounds(record)}
    return {index: float(value) for index, value in figures.items() if value is not None}


def why_impossible(case: Case, metrics: Sequence[Metric]) -> str | None:
    """Why a case can have none of the metrics, as far as that is known before measuring."""
    if case.device_type != "cpu" or not all(metric.device_only for metric in metrics):
        return None
    others = ", ".join(metric.name for metric in METRICS if not metric.device_only)
    return f"no case on a CPU has {_names(metrics)}; there are {others}"


def require_possible(cases: Sequence[Case], metrics: Sequence[Metric]) -> None:
    """BadInput, before anything is measured, if no case can have any of the metrics."""
    reasons = [why_impossible(case, metrics) for case in cases]
    if reasons and all(reasons):
        raise BadInput(f"there would be nothing to compare: {reasons[0]}")


def require_common(pairs: RecordPairs, metrics: Sequence[Metric]) -> None:
    """BadInput if no pair has any of the metrics on both sides: a comparison of nothing would pass."""
    if not pairs or any(_both_have(pairs, metric) for metric in metrics):
        return
    common = _names(metric for metric in METRICS if _both_have(pairs, metric)) or "nothing"
    raise BadInput(
        f"no case has {_names(metrics)} on both sides: there is nothing to compare (they have {common})"
    )


def uncompared_metrics(pairs: RecordPairs, metrics: Sequence[Metric]) -> list[str]:
    """Notes about metrics that only one side has and, where the user chose metrics, that neither has. A reader
    must not take them for unchanged."""
    notes = []
    for side, i in (("before", 0), ("now", 1)):
        counts = {
            metric.name: sum(bool(values(pair[i], metric)) > bool(values(pair[1 - i], metric)) for pair in pairs)
            for metric in metrics
        }
        listed = [f"{name} ({n} {'case' if n == 1 else 'cases'})" for name, n in counts.items() if n]
        notes += [f"not compared, for only the records of {side} have it: {', '.join(listed)}"] if listed else []
    if pairs and len(metrics) < len(METRICS):
        absent = [m for m in metrics if not any(values(record, m) for pair in pairs for record in pair)]
        notes += [f"not compared, for no record has it: {_names(absent)}"] if absent else []
    return notes


def _both_have(pairs: RecordPairs, metric: Metric) -> bool:
    return any(values(a, metric) and values(b, metric) for a, b in pairs)


def _names(metrics: Iterable[Metric]) -> str:
    return ", ".join(metric.name for metric in metrics)
