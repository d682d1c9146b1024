"""The small ladder that every node measures before it is trusted, and which nodes it shows to differ."""

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.records.figures import good_rounds, round_median
from tare.records.record import Record
from tare.stats.agreement import LIMIT, judge_agreement
from tare.workloads import get_workload

# Enough processes that a single disturbed one does not matter.
CALIBRATION = Options(rounds=5, budget=2.5, parity=False)
WORKLOAD = "mlp"
# Its batch and width: about a millisecond on a core, and on a GPU mostly its arithmetic.
SIZES = {"cpu": (64, 512), "cuda": (4096, 4096)}
TAGS = {"fleet": "calibration"}


class Calibration(msgspec.Struct, kw_only=True):
    """What the small ladder took on a device of a node, in each process; `ratio` is to its peers."""

    device: str
    rounds_s: list[float]
    median_s: float
    ratio: float | None = None
    drifts: bool = False


def calibration_cases(devices: Sequence[str]) -> list[Case]:
    defaults = get_workload(WORKLOAD).defaults
    return [
        Case(workload=WORKLOAD, rung="eager", device=device, batch=batch, sizes={**defaults, "width": width})
        for device, (batch, width) in SIZES.items()
        if device in devices
    ]


def read_calibration(record: Record) -> list[Calibration]:
    medians = [interval.mid for done in good_rounds(record) if (interval := round_median(done, "pipelined"))]
    if not medians:
        return []
    return [Calibration(device=record.case.device, rounds_s=medians, median_s=median(medians))]


def compare_nodes(measured: Mapping[str, Calibration], limit: float = LIMIT) -> dict[str, str]:
    """Writes the ratio and the verdict of each node of one kind, and says of those that drift how far."""
    reasons = {}
    verdicts = judge_agreement({name: each.rounds_s for name, each in measured.items()}, limit)
    for name, verdict in verdicts.items():
        measured[name].ratio, measured[name].drifts = verdict
        if verdict.drifts:
            reasons[name] = (
                f"it is not like its {len(measured) - 1} peers: {WORKLOAD} on {measured[name].device} takes "
                f"{verdict.ratio:.2f} times as long (limit {1 + limit:.2f})"
            )
    return reasons
