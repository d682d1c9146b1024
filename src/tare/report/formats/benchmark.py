"""github-action-benchmark's `customSmallerIsBetter`: a list of name, unit, value and range."""

import json

from tare.guard.changes import Report
from tare.report.changes import change_of
from tare.report.formats import comparison_format


@comparison_format("benchmark", "github-action-benchmark, customSmallerIsBetter")
def comparison_benchmark(report: Report) -> str:
    entries = [
        {
            "name": f"{case.case} {change.metric}",
            "unit": change.unit or "count",
            "value": change.b,
            "range": change_of(change),
            "extra": f"{change.verdict}, {change.rounds_b} rounds, against {report.a}",
        }
        for case in report.cases
        for change in case.changes
    ]
    return json.dumps(entries, indent=1, allow_nan=False) + "\n"
