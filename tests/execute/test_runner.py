"""The runner with an executor that measures nothing: order, what is kept when, failures, resuming."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_round
from checking import Kept

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.runner import Target, make_record, run_cases
from tare.records.record import Parity, Record, Round

A, B, C = (make_case(rung=rung) for rung in ("eager", "torchscript", "compile"))
SAME = Parity(status="same", compared=1)
Outcome = Callable[[Case, int], Round]


def good(_case: Case, index: int) -> Round:
    return make_round(index)


def failed(index: int) -> Round:
    return make_round(index, series=[], failure=make_failure())


@dataclass
class Stage(Kept):
    """Executor, journal and listener in one: all of them write into the same list of events."""

    outcome: Outcome = good
    events: list[str] = field(default_factory=list)
    checks: list[bool] = field(default_factory=list)

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:  # noqa: ARG002
        self.events.append(f"run {case.rung} {index}")
        self.checks.append(check)
        return self.outcome(case, index)

    def add_round(self, case: Case, done: Round) -> None:
        super().add_round(case, done)
        self.events.append(f"keep {case.rung} {done.index}")

    def add_record(self, record: Record) -> None:
        super().add_record(record)
        self.events.append(f"record {record.case.rung}")

    def go(self, *cases: Case, rounds: int = 2, fail_fast: bool = False) -> list[Record]:
        return run_cases(cases, Options(rounds=rounds), Target(self, ENVIRONMENT, self), self, fail_fast)

    def only(self, what: str) -> list[str]:
        return [event.removeprefix(what + " ") for event in self.events if event.startswith(what)]


def test_the_rungs_take_turns() -> None:
    stage = Stage()
    records = stage.go(A, B, C)
    turns = ["eager 0", "torchscript 0", "compile 0", "eager 1", "torchscript 1", "compile 1"]
    assert stage.only("run") == turns
    assert [record.case for record in records] == [A, B, C]
    assert all(record.ok and len(record.rounds) == 2 for record in records)


def test_each_result_is_kept_the_moment_it_exists() -> None:
    stage = Stage()
    stage.go(A, B)
    assert stage.events == [
        "run eager 0", "keep eager 0",
        "run torchscript 0", "keep torchscript 0",
        "run eager 1", "keep eager 1", "record eager",
        "run torchscript 1", "keep torchscript 1", "record torchscript",
    ]  # fmt: skip


def test_a_crash_loses_nothing_that_was_measured() -> None:
    def crash(case: Case, index: int) -> Round:
        if (case, index) == (B, 1):
            raise KeyboardInterrupt
        return make_round(index)

    stage = Stage(outcome=crash)
    with pytest.raises(KeyboardInterrupt):
        stage.go(A, B)
    assert stage.only("record") == ["eager"]
    assert [len(stage.rounds(case)) for case in (A, B)] == [2, 1]


def test_a_case_that_fails_is_recorded_at_once_and_not_repeated() -> None:
    stage = Stage(outcome=lambda case, index: failed(index) if case == B else make_round(index))
    records = stage.go(A, B, C)
    assert stage.only("run").count("torchscript 0") == 1
    assert "torchscript 1" not in stage.only("run")
    assert stage.events.index("record torchscript") < stage.events.index("run compile 0")
    assert [record.ok for record in records] == [True, False, True]
    assert records[1].failure == make_failure()
    assert len(records[1].rounds) == 1


def test_a_later_round_that_fails_is_kept_beside_the_good_ones() -> None:
    (record,) = Stage(outcome=lambda _, index: failed(index) if index == 1 else make_round(index)).go(A, rounds=3)
    assert record.ok
    assert [done.failure is None for done in record.rounds] == [True, False, True]


def test_fail_fast_stops_at_the_first_failed_case() -> None:
    stage = Stage(outcome=lambda case, index: failed(index) if case == B else make_round(index))
    records = stage.go(A, B, C, fail_fast=True)
    assert [record.case for record in records] == [B]
    assert stage.only("run") == ["eager 0", "torchscript 0"]


def test_fail_fast_forgives_a_failed_round_of_a_good_case() -> None:
    stage = Stage(outcome=lambda _, index: failed(index) if index == 1 else make_round(index))
    assert len(stage.go(A, B, fail_fast=True)) == 2


def test_resuming_measures_nothing_twice() -> None:
    first = make_record(A, [make_round(0), make_round(1)], ENVIRONMENT, "run1")
    stage = Stage(made={A: first}, kept={B: [make_round(0)]})
    records = stage.go(A, B, C)
    assert stage.only("run") == ["compile 0", "torchscript 1", "compile 1"]
    assert records[0] is first
    assert [len(record.rounds) for record in records] == [2, 2, 2]


def test_resuming_after_the_last_round_only_writes_the_record() -> None:
    stage = Stage(kept={A: [make_round(0), make_round(1)], B: [failed(0)]})
    records = stage.go(A, B)
    assert stage.only("run") == []
    assert [record.ok for record in records] == [True, False]


def test_resuming_a_finished_run_does_nothing() -> None:
    stage = Stage()
    before = stage.go(A, B)
    stage.events.clear()
    assert stage.go(A, B) == before
    assert stage.events == []


def test_parity_is_asked_for_until_it_is_known() -> None:
    stage = Stage(outcome=lambda _, index: make_round(index, parity=SAME if index == 0 else None))
    (record,) = stage.go(A, rounds=3)
    assert stage.checks == [True, False, False]
    assert record.parity == SAME


def test_parity_known_from_before_is_not_asked_for_again() -> None:
    stage = Stage(kept={A: [make_round(0, parity=SAME)]})
    (record,) = stage.go(A, rounds=2)
    assert stage.checks == [False]
    assert record.parity == SAME


def test_a_record_without_parity_says_why() -> None:
    assert make_record(A, [make_round(0)], ENVIRONMENT, "r").parity.reason == "not asked for"
    broken = make_record(A, [failed(0)], ENVIRONMENT, "r")
    assert (broken.parity.status, broken.parity.reason) == ("unchecked", "no round succeeded")


def test_the_flags_of_the_worker_become_part_of_the_environment() -> None:
    record = make_record(A, [make_round(0, flags={"tf32": "on", "threads": "4"})], ENVIRONMENT, "r")
    assert record.environment.flags == {**ENVIRONMENT.flags, "tf32": "on", "threads": "4"}
    assert record.environment.machine == ENVIRONMENT.machine


def test_records_have_names_of_their_own() -> None:
    made = [make_record(A, [make_round(0)], ENVIRONMENT, "r") for _ in range(20)]
    assert len({record.id for record in made}) == 20
