"""SARIF 2.1.0: one result per regression, with its figures. A case has no location in a source file."""

import json
from typing import Any

import tare
from tare.guard.changes import Report
from tare.report.changes import Problem, only_in, problems
from tare.report.formats import comparison_format

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FIGURES = ("a", "b", "ratio", "low", "high", "p", "adjusted_p", "rounds_a", "rounds_b", "threshold", "unit")


@comparison_format("sarif", "SARIF 2.1.0, for code scanning")
def comparison_sarif(report: Report) -> str:
    listed = list(problems(report))
    for label, keys in only_in(report).items():
        listed += [Problem("warning", "not-compared", key, f"not compared, only in {label}") for key in keys]
    results = [_result(problem) for problem in listed]
    rules = [{"id": rule} for rule in sorted({result["ruleId"] for result in results})]
    driver = {"name": "tare", "version": tare.__version__, "rules": rules}
    about = {"environment": report.environment, "notes": report.notes}
    run = {"tool": {"driver": driver}, "results": results, "properties": about}
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _result(problem: Problem) -> dict[str, Any]:
    return {
        "ruleId": problem.rule,
        "level": problem.level,
        "message": {"text": problem.text},
        "locations": [{"logicalLocations": [{"fullyQualifiedName": problem.case, "kind": "resource"}]}],
        "partialFingerprints": {"case": problem.case, "metric": problem.rule},
        "properties": {name: getattr(problem.change, name) for name in FIGURES} if problem.change else {},
    }
