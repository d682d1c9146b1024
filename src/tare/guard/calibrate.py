"""Calibration: the noise of each case on this machine, what change it can detect, and at what cost.

All rounds are of one version, so that whatever differs between them is noise: A/A.
"""

import math
from collections.abc import Sequence
from statistics import median

import msgspec
import numpy as np

from tare.errors import BadInput
from tare.guard.metrics import METRICS, Metric, values
from tare.guard.thresholds import Thresholds
from tare.records.figures import good_rounds
from tare.records.record import Record
from tare.stats.comparison import compare, judge
from tare.stats.power import detectable_change, rounds_to_detect
from tare.stats.two_stage import LEVEL

# For these numbers of rounds the table says what change they can see.
ROUNDS = (6, 12, 24)


class Noise(msgspec.Struct, kw_only=True):
    """Of one metric of one case. `noise` is the standard deviation between processes, as a share."""

    case: str
    metric: str
    unit: str
    rounds: int
    typical: float
    noise: float
    # Correlation of a round with the next: far from zero, the machine wanders while one measures.
    correlation: float | None
    # The smallest change found with 95 % power, by the number of rounds a side; None where it is over tenfold.
    detectable: dict[int, float | None]
    # Rounds a side and seconds of machine time (both sides) that find a change as large as the threshold.
    threshold: float
    rounds_for_threshold: int | None
    seconds_for_threshold: float | None
    seconds_a_round: float
    # What a comparison of the even rounds with the odd ones says; anything but same or undecided is a false alarm.
    aa_ratio: float | None
    aa_verdict: str


def calibrate(records: Sequence[Record], thresholds: Thresholds, metrics: Sequence[Metric]) -> list[Noise]:
    """A line for each case and metric with at least four rounds that nobody ignores."""
    lines = []
    for record in records:
        for metric in metrics:
            found = list(values(record, metric).values())
            if metric.exact or thresholds.of(record.case, metric).ignore or len(found) < 4 or min(found) <= 0:
                continue
            lines.append(_line(record, metric, found, thresholds))
    return lines


def refuse_empty(lines: Sequence[Noise], records: Sequence[Record], metrics: Sequence[Metric]) -> None:
    """BadInput where nothing is left of what was measured: an empty table says neither that nor why."""
    if lines or not any(record.ok for record in records):
        return
    names = ", ".join(metric.name for metric in metrics)
    have = [one.name for one in METRICS if not one.exact and any(values(record, one) for record in records)]
    raise BadInput(
        f"no case has a noise of {names}: none has it in four rounds, or it is ignored "
        f"(they have {', '.join(have) or 'nothing'})"
    )


def _line(record: Record, metric: Metric, found: list[float], thresholds: Thresholds) -> Noise:
    limits = thresholds.of(record.case, metric)
    logs = np.log(np.asarray(found))
    noise = float(logs.std(ddof=1))
    seconds = median(done.seconds for done in good_rounds(record))
    # One case alone; among many, each costs a little more (docs/guard.md).
    needed = rounds_to_detect(limits.threshold, noise, LEVEL, min(limits.margin, limits.threshold / 2))
    halves = compare(found[0::2][: len(found) // 2], found[1::2], paired=True)
    return Noise(
        case=record.case.key,
        metric=metric.name,
        unit=metric.unit,
        rounds=len(found),
        typical=median(found),
        noise=noise,
        correlation=_correlation(logs.tolist()),
        detectable={n: _small(detectable_change(noise, n, LEVEL, limits.margin)) for n in ROUNDS},
        threshold=limits.threshold,
        rounds_for_threshold=needed,
        seconds_for_threshold=2 * needed * seconds if needed else None,
        seconds_a_round=seconds,
        aa_ratio=halves.ratio.mid if math.isfinite(halves.ratio.mid) else None,
        aa_verdict=judge(halves, limits.margin, level=LEVEL),
    )


def _correlation(logs: list[float]) -> float | None:
    if len(logs) < 6:
        return None
    centred = np.asarray(logs) - np.mean(logs)
    power = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / power if power > 0 else None


def _small(change: float) -> float | None:
    return change if change < 9 else None
