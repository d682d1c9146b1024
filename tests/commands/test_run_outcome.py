"""How a run ends: what is a failure and what is only an answer."""

import pytest
from builders import make_case, make_failure, make_record

from tare.commands.run import RunResult
from tare.records.record import Record
from tare.report.ladder import make_ladders


def ended(rung: str, cause: str | None) -> Record:
    failure = make_failure(cause=cause, message="no operator for aten.expand", stage="") if cause else None
    return make_record(make_case(rung=rung), () if cause else (1e-3,), failure=failure)


@pytest.mark.parametrize(
    ("cause", "code"), [(None, 0), ("unsupported", 0), ("exception", 1), ("device-oom", 1), ("nan", 1)]
)
def test_a_rung_that_cannot_run_the_workload_is_no_failure_of_the_run(cause: str | None, code: int) -> None:
    records = [ended("eager", None), ended("vendor", cause)]
    outcome = RunResult(run="run", store="store", records=records, skipped=[], excluded_rungs={}, planned=2)
    assert outcome.exit_code == code


def test_the_ladder_says_which_of_both_it_was() -> None:
    (ladder,) = make_ladders([ended("vendor", "unsupported"), ended("compile", "exception")])
    assert [row.trouble for row in ladder.rows] == [
        "compile failed: exception in start: no operator for aten.expand",
        "vendor cannot run it: no operator for aten.expand",
    ]
