"""The mean percentage error of each pair of kernels, as the LSTM paper (docs/sources.md) compares them."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean

import msgspec

from tare.records.figures import good_rounds, gross
from tare.records.record import COMPARABLE, Record
from tare.report.formats import record_format
from tare.report.formats.markdown import markdown
from tare.report.numbers import several
from tare.report.view import FittingTable, View
from tare.rungs.registry import every_name

DEFINITION = (
    "MPE: the mean over all points (batch, sizes, ...) of (first - second) / first, each the gross of a step. "
    "Negative: the second is slower."
)
NOTHING = "no two kernels have a point in common"
# By what is the same of two records that are compared: case without rung and precision, and the environment.
Times = dict[tuple[str, str], Record]


class MeanPercentageError(msgspec.Struct, kw_only=True):
    """Of one pair; `least` and `most` are those of single points, `rounds` the fewest behind a time."""

    first: str
    second: str
    mean: float
    least: float
    most: float
    points: int
    rounds: int
    unchecked: bool


@record_format("mpe", "Markdown table of the mean percentage error of each pair of rungs and precisions")
def records_mpe(records: Sequence[Record]) -> str:
    pairs = mean_percentage_errors(records)
    if not pairs:
        return f"{DEFINITION}\n\n{NOTHING}\n"
    rows = [
        {
            "first": pair.first,
            "second": pair.second,
            "MPE": f"{pair.mean:.3f}",
            "of single points": f"{pair.least:.3f} to {pair.most:.3f}",
            "points": str(pair.points),
            "rounds": str(pair.rounds),
            "parity": "unchecked" if pair.unchecked else "same",
        }
        for pair in pairs
    ]
    left_out = sum(1 for record in records if not _is_comparable(record))
    view = View().put(FittingTable(rows, words=("first", "second", "parity"), folds={}))
    if left_out:
        view.add(
            "aside",
            f"{several(left_out, 'record')} left out: failed, different from the reference, or not checked",
        )
    return f"{DEFINITION}\n\n{markdown(view)}"


def mean_percentage_errors(records: Sequence[Record]) -> list[MeanPercentageError]:
    """Of each two kernels (a rung at a precision) with common points, in the order of a ladder."""
    kernels: dict[tuple[str, str], Times] = {}
    for record in sorted(filter(_is_comparable, records), key=lambda record: record.created):
        # The newest record of a case counts.
        kernels.setdefault((record.case.rung, record.case.precision), {})[_point(record)] = record
    precisions = {precision for _, precision in kernels}
    names = {kernel: " ".join(kernel) if len(precisions) > 1 else kernel[0] for kernel in kernels}
    return [
        _compare(names[first], names[second], [(kernels[first][p], kernels[second][p]) for p in common])
        for first, second in combinations(sorted(kernels, key=_position), 2)
        if (common := kernels[first].keys() & kernels[second].keys())
    ]


def _compare(first: str, second: str, points: Sequence[tuple[Record, Record]]) -> MeanPercentageError:
    errors = [(_gross(a) - _gross(b)) / _gross(a) for a, b in points]
    both: Iterable[Record] = [record for point in points for record in point]
    return MeanPercentageError(
        first=first,
        second=second,
        mean=fmean(errors),
        least=min(errors),
        most=max(errors),
        points=len(points),
        rounds=min(len(good_rounds(record)) for record in both),
        unchecked=any(record.parity.status == "unchecked" for record in both),
    )


def _is_comparable(record: Record) -> bool:
    parity = record.parity
    return record.ok and gross(record) is not None and parity.status in COMPARABLE and not parity.missing


def _gross(record: Record) -> float:
    step = gross(record)
    assert step is not None
    return step.mid


def _point(record: Record) -> tuple[str, str]:
    return msgspec.structs.replace(record.case, rung="*", precision="fp32").key, record.environment.id


def _position(kernel: tuple[str, str]) -> tuple[int, str, str]:
    """As in a ladder; rungs that are not known here come last."""
    rung, precision = kernel
    order, name = every_name(), rung.partition("@")[0]
    return order.index(name) if name in order else len(order), rung, precision
