"""Metrics that were not compared because a side does not have them: whoever reads a report must not take them for
unchanged."""

from collections.abc import Sequence

from tare.cases.case import Case
from tare.errors import BadInput
from tare.guard.metrics import METRICS, Metric, values
from tare.records.record import Record

Pairs = Sequence[tuple[Record, Record]]


def impossible(case: Case, metrics: Sequence[Metric]) -> str | None:
    """Why none of the metrics can be known of a case, known before anything is measured."""
    if case.device_type != "cpu" or not all(metric.beside_cpu for metric in metrics):
        return None
    names = ", ".join(metric.name for metric in metrics)
    others = ", ".join(metric.name for metric in METRICS if not metric.beside_cpu)
    return f"no case on a CPU has {names}; there are {others}"


def refuse_impossible(cases: Sequence[Case], metrics: Sequence[Metric]) -> None:
    """BadInput where none of the metrics can be known of any case: said before anything is measured."""
    reasons = [impossible(case, metrics) for case in cases]
    if reasons and all(reasons):
        raise BadInput(f"there would be nothing to compare: {reasons[0]}")


def refuse_nothing(pairs: Pairs, metrics: Sequence[Metric]) -> None:
    """BadInput where no case has any of the metrics on both sides: what compares nothing finds nothing, and would
    pass. `pairs` are those that can be compared."""
    if not pairs or any(_both_have(pairs, metric) for metric in metrics):
        return
    names = ", ".join(metric.name for metric in metrics)
    have = ", ".join(metric.name for metric in METRICS if _both_have(pairs, metric)) or "nothing"
    raise BadInput(f"no case has {names} on both sides: there is nothing to compare (they have {have})")


def absences(pairs: Pairs, metrics: Sequence[Metric]) -> list[str]:
    """Notes of what only one side has and, where the user chose metrics, of what neither has."""
    notes = []
    for side, which in (("before", 0), ("now", 1)):
        told = []
        for metric in metrics:
            cases = sum(
                bool(values(pair[which], metric)) > bool(values(pair[1 - which], metric)) for pair in pairs
            )
            told += [f"{metric.name} ({cases} {'case' if cases == 1 else 'cases'})"] if cases else []
        notes += [f"not compared, for only the records of {side} have it: {', '.join(told)}"] if told else []
    if pairs and len(metrics) < len(METRICS):
        nowhere = [m.name for m in metrics if not any(values(record, m) for pair in pairs for record in pair)]
        notes += [f"not compared, for no record has it: {', '.join(nowhere)}"] if nowhere else []
    return notes


def _both_have(pairs: Pairs, metric: Metric) -> bool:
    return any(values(a, metric) and values(b, metric) for a, b in pairs)
