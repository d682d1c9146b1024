"""A case that fails in some of its rounds, in every format."""

import io
import json
from xml.etree import ElementTree

import msgspec
from rich.console import Console

from tare.guard.changes import CaseChange, Report
from tare.report.changes import changes_view, summary_line
from tare.report.formats import get_comparison_format


def test_a_case_that_fails_in_some_rounds_now_is_a_failure_in_every_format() -> None:
    reason = "1 of 6 rounds failed now (signal: SIGSEGV), then 2 of 17 rounds failed now (signal: SIGSEGV)"
    case = CaseChange(case="mlp/eager", state="compared", reason=reason, newly_failing=True)
    report = Report(a="before", b="now", created="2026-01-02", cases=[case])
    said = f"fails in some rounds now, and did not before: {reason}"
    assert (report.exit_code, report.bad) == (1, [case])
    assert summary_line(report).startswith("1 regression in 1 of 1 cases")
    terminal = io.StringIO()
    Console(file=terminal, width=200).print(changes_view(report))
    assert said in terminal.getvalue()
    markdown = get_comparison_format("markdown")(report)
    assert markdown.startswith("## ❌ 1 regression")
    assert f"- `mlp/eager` {said}" in markdown
    assert f"::error title=mlp/eager::{said}" in get_comparison_format("github")(report)
    root = ElementTree.fromstring(get_comparison_format("junit")(report))
    assert (root.get("failures"), root.findtext(".//failure")) == ("1", said)
    (result,) = json.loads(get_comparison_format("sarif")(report))["runs"][0]["results"]
    assert (result["ruleId"], result["level"], result["message"]["text"]) == ("failed-rounds", "error", said)
    (written,) = json.loads(msgspec.json.encode(report))["cases"]
    assert (written["newly_failing"], written["reason"]) == (True, reason)


def test_a_case_that_failed_once_and_not_again_is_told() -> None:
    case = CaseChange(case="mlp/eager", state="compared", reason="failed once and not again (signal: SIGSEGV)")
    report = Report(a="before", b="now", created="2026-01-02", cases=[case])
    assert "- `mlp/eager` failed once and not again (signal: SIGSEGV)" in get_comparison_format("markdown")(report)
    assert "::warning title=mlp/eager::failed once and not again" in get_comparison_format("github")(report)
    root = ElementTree.fromstring(get_comparison_format("junit")(report))
    assert (root.get("failures"), root.findtext(".//system-out")) == ("0", case.reason)
    (result,) = json.loads(get_comparison_format("sarif")(report))["runs"][0]["results"]
    assert (result["level"], result["message"]["text"]) == ("warning", case.reason)
