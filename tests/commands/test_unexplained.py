"""Cases that cannot be explained and cases that failed: skipped or failed, and the exit code."""

from typing import Any

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_record

from tare.commands.explain import Explainer, ExplainOptions
from tare.commands.traces import unseen
from tare.execute.catalogue import LocalCatalogue
from tare.protocol.messages import Probed
from tare.records.record import Record
from tare.report.explain import ExplainReport


def make_probed() -> Probed:
    return Probed(environment=ENVIRONMENT, devices=["cpu"], gpus={}, absent={"cpu": {}}, missing_packages={})


def explained(*records: Record) -> ExplainReport:
    """The report on records of which none is profiled, so that no executor is needed."""
    nobody: Any = None
    return Explainer(nobody, make_probed(), ExplainOptions()).explain(list(records))


def test_an_unsupported_case_is_skipped() -> None:
    found = explained(
        make_record(failure=make_failure(cause="unsupported", message="no operator for aten.expand"))
    )
    assert [(skip.cause, skip.reason) for skip in found.skipped] == [
        ("unsupported", "no operator for aten.expand")
    ]
    assert not found.failed


@pytest.mark.parametrize("rung", ["libtorch", "aot"])
def test_an_executable_is_skipped_with_the_reason(rung: str) -> None:
    """Before it is measured."""
    here = LocalCatalogue(make_probed(), unwanted=unseen)
    refused = here.refusal(make_case(workload="resnet50", rung=rung, sizes={}))
    assert refused is not None
    assert refused[0] == "unsupported"
    assert "profiler cannot see into" in refused[1]
    assert here.refusal(make_case(rung="eager", sizes={})) is None


def test_an_executable_that_failed_is_a_failure() -> None:
    found = explained(
        make_record(case=make_case(rung="libtorch"), failure=make_failure(cause="signal", message="SIGSEGV"))
    )
    assert list(found.failed.values()) == ["signal: SIGSEGV"]
    assert not found.skipped


def test_the_exit_code_is_0_only_with_an_explanation_and_without_failures() -> None:
    skipped = explained(make_record(failure=make_failure(cause="unsupported", message="no operator")))
    assert skipped.exit_code == 1
    some: Any = [object()]
    skipped.explanations = some
    assert skipped.exit_code == 0
    skipped.failed = {"a case": "why"}
    assert skipped.exit_code == 1
