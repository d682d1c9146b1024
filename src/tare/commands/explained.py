"""What was explained, and how two steps differ."""

from typing import Any

import msgspec

from tare.cases.grid import Skip
from tare.findings.diagnosis import Diagnosis
from tare.records.work import Peaks
from tare.report.overview import ReusedRecords
from tare.trace.explanation import Explanation
from tare.trace.group import GroupBreakdown, group_breakdowns
from tare.trace.waterfall import WaterfallDifference, waterfall_difference

# What a rung's parity says where it computes what the others do, as far as anybody knows.
SAME = ("same", "unchecked")


class Explained(msgspec.Struct, kw_only=True):
    """All that was asked for. `failed` says why a case has no explanation."""

    explanations: list[Explanation]
    # Findings, tables and memory: one for each explanation, in the same order.
    diagnoses: list[Diagnosis]
    failed: dict[str, str] = {}
    # Combinations that are impossible here, and rungs that no profiler sees into; and why.
    skipped: list[Skip] = []
    against: list[WaterfallDifference] = []
    peaks: list[Peaks] = []
    # Where records of earlier runs were asked for.
    recorded: ReusedRecords | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if self.failed or not self.explanations else 0

    @property
    def breakdowns(self) -> GroupBreakdown | None:
        """Side by side, where several workloads were explained on a device: a host alone has no such parts."""
        several = len({one.workload or one.title for one in self.explanations}) > 1
        made = group_breakdowns(self.explanations, self.failed) if several else None
        return made if made and made.bars else None

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"explanations": self.explanations, "diagnoses": self.diagnoses}
        fields |= {"failed": self.failed, "skipped": self.skipped, "against": self.against}
        fields |= {"recorded": self.recorded}
        return fields | {"breakdowns": self.breakdowns, "peaks": self.peaks, "interrupted": self.interrupted}


def compare(one: Explanation, other: Explanation) -> list[WaterfallDifference]:
    """What the other step removed, cause by cause; nothing where a gross is unknown, for then no time is."""
    if one.waterfall.profiled or other.waterfall.profiled:
        return []
    names = [explanation.rung or explanation.title for explanation in (one, other)]
    return [
        WaterfallDifference(
            one=names[0], other=names[1], parts=waterfall_difference(one.waterfall, other.waterfall)
        )
    ]


# FIXME
