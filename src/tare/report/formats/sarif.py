"""SARIF 2.1.0: one result per regression, with its figures. A case has no location in a source file."""

import json
from typing import Any

import tare
from tare.guard.changes import MetricChange, Report
from tare.report.changes import change_of, remark, uncompared, wrong_with
from tare.report.formats import comparison_format

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@comparison_format("sarif", "SARIF 2.1.0, for code scanning")
def comparison_sarif(report: Report) -> str:
    results = []
    for case in report.cases:
        wrong = wrong_with(case)
        if case.state == "compared" and case.reason:
            level = "error" if wrong else "warning"
            results.append(_result("failed-rounds", level, case.case, wrong or case.reason, {}))
        elif wrong:
            results.append(_result(case.state, "error", case.case, wrong, {}))
        results += [_result("leak", "error", case.case, leak, {}) for leak in case.leaks]
        for change in case.changes:
            if change.worse:
                level = "error" if change.regression else "warning"
                text = f"{change.metric} is {change.verdict}: {change_of(change)}; {remark(change)}"
                results.append(_result(change.metric, level, case.case, text, _properties(change)))
    for key, label in uncompared(report):
        results.append(_result("not-compared", "warning", key, f"not compared, only in {label}", {}))
    for line in report.forced:
        results.append(
            _result("not-comparable", "warning", "environment", f"not comparable, and forced: {line}", {})
        )
    rules = [{"id": rule} for rule in sorted({result["ruleId"] for result in results})]
    driver = {"name": "tare", "version": tare.__version__, "rules": rules}
    about = {"environment": report.environment, "notes": report.notes}
    run = {"tool": {"driver": driver}, "results": results, "properties": about}
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _result(rule: str, level: str, case: str, text: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [{"logicalLocations": [{"fullyQualifiedName": case, "kind": "resource"}]}],
        "partialFingerprints": {"case": case, "metric": rule},
        "properties": properties,
    }


def _properties(change: MetricChange) -> dict[str, Any]:
    names = ("a", "b", "ratio", "low", "high", "p", "adjusted_p", "rounds_a", "rounds_b", "threshold", "unit")
    return {name: getattr(change, name) for name in names}
