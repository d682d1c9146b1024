"""Calibration: the noise of each case on this machine, which change is detectable, and at what cost.

All rounds are of one version, so that every difference between them is noise (an A/A test).
"""

import math
from collections.abc import Sequence
from statistics import median

import msgspec
import numpy as np

from tare.errors import BadInput
from tare.guard.metrics import METRICS, Metric, values
from tare.guard.thresholds import MetricLimits, Thresholds
from tare.records.figures import good_rounds
from tare.records.record import Record
from tare.stats.comparison import compare, judge
from tare.stats.power import detectable_change, rounds_to_detect
from tare.stats.two_stage import LEVEL

# The numbers of rounds for which the table shows the detectable change.
ROUNDS = (6, 12, 24)
MIN_ROUNDS = 4
# A larger detectable change is shown as none.
MAX_CHANGE = 9.0


class CaseNoise(msgspec.Struct, kw_only=True):
    """One metric of one case. `noise` is the standard deviation between processes, as a share."""

    case: str
    metric: str
    unit: str
    rounds: int
    typical: float
    noise: float
    # Correlation of a round with the next: far from zero, the machine drifts during the measurement.
    correlation: float | None
    # The smallest change detected with 95 % power, by the number of rounds a side; None where it is over tenfold.
    detectable: dict[int, float | None]
    # Rounds a side and seconds of machine time (both sides) that detect a change as large as the threshold.
    threshold: float
    rounds_for_threshold: int | None
    seconds_for_threshold: float | None
    seconds_a_round: float
    # The comparison of the even rounds with the odd ones; "higher" or "lower" would be a false alarm.
    aa_ratio: float | None
    aa_verdict: str


def calibrate(records: Sequence[Record], thresholds: Thresholds, metrics: Sequence[Metric]) -> list[CaseNoise]:
    """One entry for each case and noisy metric that is not ignored and has at least four rounds."""
    lines = []
    for record in records:
        for metric in metrics:
            figures, limits = list(values(record, metric).values()), thresholds.of(record.case, metric)
            noisy = not metric.exact and not limits.ignore
            if noisy and len(figures) >= MIN_ROUNDS and min(figures) > 0:
                lines.append(_case_noise(record, metric, figures, limits))
    return lines


def refuse_empty(lines: Sequence[CaseNoise], records: Sequence[Record], metrics: Sequence[Metric]) -> None:
    """BadInput if no case has any of the metrics: an empty table would not say why."""
    if lines or not any(record.ok for record in records):
        return
    names = ", ".join(metric.name for metric in metrics)
    available = [m.name for m in METRICS if not m.exact and any(values(record, m) for record in records)]
    raise BadInput(
        f"no case has a noise of {names}: none has it in four rounds, or it is ignored "
        f"(they have {', '.join(available) or 'nothing'})"
    )


def _case_noise(record: Record, metric: Metric, figures: list[float], limits: MetricLimits) -> CaseNoise:
    logs = np.log(np.asarray(figures))
    noise = float(logs.std(ddof=1))
    seconds = median(round_.seconds for round_ in good_rounds(record))
    # For one case alone; among many, each needs a little more (docs/guard.md).
    rounds = rounds_to_detect(limits.threshold, noise, LEVEL, min(limits.margin, limits.threshold / 2))
    halves = compare(figures[0::2][: len(figures) // 2], figures[1::2], paired=True)
    detectable = {n: detectable_change(noise, n, LEVEL, limits.margin) for n in ROUNDS}
    centred = logs - logs.mean()
    power = float(centred @ centred)
    return CaseNoise(
        case=record.case.key,
        metric=metric.name,
        unit=metric.unit,
        rounds=len(figures),
        typical=median(figures),
        noise=noise,
        correlation=float(centred[1:] @ centred[:-1]) / power if logs.size >= 6 and power > 0 else None,
        detectable={n: change if change < MAX_CHANGE else None for n, change in detectable.items()},
        threshold=limits.threshold,
        rounds_for_threshold=rounds,
        seconds_for_threshold=2 * rounds * seconds if rounds else None,
        seconds_a_round=seconds,
        aa_ratio=halves.ratio.mid if math.isfinite(halves.ratio.mid) else None,
        aa_verdict=judge(halves, limits.margin, level=LEVEL),
    )
