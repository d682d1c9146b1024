"""The runner with a mock executor: the order of rounds, when results are stored, failures, resuming."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from builders import ENVIRONMENT, make_case, make_failure, make_round
from hypothesis import given
from hypothesis import strategies as st
from mock_runs import MemoryJournal

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.runner import FirstFailure, Target, ladders, make_record, run_cases, schedule
from tare.protocol.jobs import reference_case
from tare.records.environment import Environment
from tare.records.record import Parity, Record, Round

A, B, C = (make_case(rung=rung) for rung in ("eager", "torchscript", "compile"))
SAME = Parity(status="same", compared=1)
MakeRound = Callable[[Case, int], Round]


def good(_case: Case, index: int) -> Round:
    return make_round(index)


def failed(index: int) -> Round:
    return make_round(index, series=[], failure=make_failure())


@dataclass
class MockRun(MemoryJournal):
    """Executor, journal and listener in one, which write into the same list of events."""

    make: MakeRound = good
    events: list[str] = field(default_factory=list)
    checks: list[bool] = field(default_factory=list)

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:  # noqa: ARG002
        self.events.append(f"run {case.rung} {index}")
        self.checks.append(check)
        return self.make(case, index)

    def add_round(self, case: Case, round_: Round, /) -> None:
        super().add_round(case, round_)
        self.events.append(f"save {case.rung} {round_.index}")

    def add_record(self, record: Record) -> None:
        super().add_record(record)
        self.events.append(f"record {record.case.rung}")

    def go(self, *cases: Case, rounds: int = 2, fail_fast: bool = False) -> list[Record]:
        with suppress(FirstFailure):
            target = Target(self, ENVIRONMENT, self, fail_fast=fail_fast)
            run_cases(cases, Options(rounds=rounds), target, self)
        return [record for case in cases if (record := self.record(case))]

    def only(self, what: str) -> list[str]:
        return [event.removeprefix(what + " ") for event in self.events if event.startswith(what)]


def test_the_rungs_of_a_ladder_are_interleaved() -> None:
    run = MockRun()
    records = run.go(A, B, C)
    turns = ["eager 0", "torchscript 0", "compile 0", "eager 1", "torchscript 1", "compile 1"]
    assert run.only("run") == turns
    assert [record.case for record in records] == [A, B, C]
    assert all(record.ok and len(record.rounds) == 2 for record in records)


def test_each_result_is_stored_the_moment_it_exists() -> None:
    run = MockRun()
    run.go(A, B)
    assert run.events == [
        "run eager 0", "save eager 0",
        "run torchscript 0", "save torchscript 0",
        "run eager 1", "save eager 1", "record eager",
        "run torchscript 1", "save torchscript 1", "record torchscript",
    ]  # fmt: skip


def test_a_crash_loses_nothing_that_was_measured() -> None:
    def crash(case: Case, index: int) -> Round:
        if (case, index) == (B, 1):
            raise KeyboardInterrupt
        return make_round(index)

    run = MockRun(make=crash)
    with pytest.raises(KeyboardInterrupt):
        run.go(A, B)
    assert run.only("record") == ["eager"]
    assert [len(run.rounds(case)) for case in (A, B)] == [2, 1]


def test_a_case_that_fails_is_recorded_at_once_and_not_repeated() -> None:
    run = MockRun(make=lambda case, index: failed(index) if case == B else make_round(index))
    records = run.go(A, B, C)
    assert run.only("run").count("torchscript 0") == 1
    assert "torchscript 1" not in run.only("run")
    assert run.events.index("record torchscript") < run.events.index("run compile 0")
    assert [record.ok for record in records] == [True, False, True]
    assert records[1].failure == make_failure()
    assert len(records[1].rounds) == 1


def test_a_later_round_that_fails_is_stored_with_the_good_ones() -> None:
    (record,) = MockRun(make=lambda _, index: failed(index) if index == 1 else make_round(index)).go(A, rounds=3)
    assert record.ok
    assert [done.failure is None for done in record.rounds] == [True, False, True]


def test_fail_fast_stops_at_the_first_failed_case() -> None:
    run = MockRun(make=lambda case, index: failed(index) if case == B else make_round(index))
    records = run.go(A, B, C, fail_fast=True)
    assert [record.case for record in records] == [B]
    assert run.only("run") == ["eager 0", "torchscript 0"]


def test_fail_fast_accepts_a_failed_round_of_a_good_case() -> None:
    run = MockRun(make=lambda _, index: failed(index) if index == 1 else make_round(index))
    assert len(run.go(A, B, fail_fast=True)) == 2


def test_resuming_measures_nothing_twice() -> None:
    first = make_record(A, [make_round(0), make_round(1)], ENVIRONMENT, "run1")
    run = MockRun(saved_records={A: first}, saved_rounds={B: [make_round(0)]})
    records = run.go(A, B, C)
    assert run.only("run") == ["compile 0", "torchscript 1", "compile 1"]
    assert records[0] is first
    assert [len(record.rounds) for record in records] == [2, 2, 2]


def test_resuming_after_the_last_round_only_writes_the_record() -> None:
    run = MockRun(saved_rounds={A: [make_round(0), make_round(1)], B: [failed(0)]})
    records = run.go(A, B)
    assert run.only("run") == []
    assert [record.ok for record in records] == [True, False]


def test_resuming_a_finished_run_does_nothing() -> None:
    run = MockRun()
    before = run.go(A, B)
    run.events.clear()
    assert run.go(A, B) == before
    assert run.events == []


def test_parity_is_checked_until_it_is_known() -> None:
    run = MockRun(make=lambda _, index: make_round(index, parity=SAME if index == 0 else None))
    (record,) = run.go(A, rounds=3)
    assert run.checks == [True, False, False]
    assert record.parity == SAME


def test_parity_of_an_earlier_run_is_not_checked_again() -> None:
    run = MockRun(saved_rounds={A: [make_round(0, parity=SAME)]})
    (record,) = run.go(A, rounds=2)
    assert run.checks == [False]
    assert record.parity == SAME


def test_a_record_without_parity_says_why() -> None:
    assert make_record(A, [make_round(0)], ENVIRONMENT, "r").parity.reason == "not asked for"
    broken = make_record(A, [failed(0)], ENVIRONMENT, "r")
    assert (broken.parity.status, broken.parity.reason) == ("unchecked", "no round succeeded")


def test_the_flags_of_the_worker_become_part_of_the_environment() -> None:
    record = make_record(A, [make_round(0, flags={"tf32": "on", "threads": "4"})], ENVIRONMENT, "r")
    assert record.environment.flags == {**ENVIRONMENT.flags, "tf32": "on", "threads": "4"}
    assert record.environment.machine == ENVIRONMENT.machine


def test_a_record_holds_the_tokens_of_its_step() -> None:
    """So that a report need not know the workload; one that is not known here has none."""
    case = make_case(workload="nanogpt", batch=4, sizes={"length": 64})
    assert make_record(case, [make_round(0)], ENVIRONMENT, "r").tokens_per_step == 256
    assert make_record(A, [make_round(0)], ENVIRONMENT, "r").tokens_per_step is None
    unknown = make_case(workload="nobody_knows_it")
    assert make_record(unknown, [make_round(0)], ENVIRONMENT, "r").tokens_per_step is None


def test_records_have_distinct_ids() -> None:
    made = [make_record(A, [make_round(0)], ENVIRONMENT, "r") for _ in range(20)]
    assert len({record.id for record in made}) == 20


RUNGS = ("eager", "torchscript", "compile")


def rungs(batch: int) -> list[str]:
    return [f"{name}@{batch}" for name in RUNGS]


def label(rung: str, batch: int) -> str:
    return f"{rung}@{batch}"


def test_ladders_are_measured_one_after_the_other() -> None:
    # The order must not depend on whether a grid varies the rung first or last.
    cases = [make_case(rung=rung, batch=batch) for rung in RUNGS for batch in (1, 8)]
    order = [(label(case.rung, case.batch), index) for case, index in schedule(cases, 2)]
    one, eight = rungs(1), rungs(8)
    assert [name for name, _ in order] == one + one + eight + eight
    assert [index for _, index in order] == [0, 0, 0, 1, 1, 1] * 2


def test_cases_that_differ_in_nothing_but_the_rung_are_a_ladder() -> None:
    cases = [
        make_case(),
        make_case(mode="train"),
        make_case(rung="compile"),
        make_case(layout="channels-last"),
        make_case(rung="compile", mode="train"),
    ]
    groups = [[case.rung for case in ladder] for ladder in ladders(cases)]
    assert groups == [["eager", "compile"], ["eager", "compile"], ["eager"]]


@given(
    st.lists(st.tuples(st.sampled_from(RUNGS), st.integers(1, 3)), unique=True, max_size=9),
    st.integers(1, 4),
)
def test_every_case_gets_every_round_once(points: list[tuple[str, int]], rounds: int) -> None:
    cases = [make_case(rung=rung, batch=batch) for rung, batch in points]
    counted = Counter(schedule(cases, rounds))
    assert counted == Counter((case, index) for case in cases for index in range(rounds))


def test_rungs_that_need_no_compiler_and_no_build_are_measured_first() -> None:
    cases = [make_case(rung=rung) for rung in ("vendor", "compile", "eager", "libtorch", "torchscript")]
    order = [case.rung for case, _ in schedule(cases, 2)]
    assert order == ["eager", "torchscript", "compile", "vendor", "libtorch"] * 2


@pytest.mark.parametrize(
    "change", [{"rung": "compile"}, {"feed": "pinned"}, {"layout": "channels-last"}, {"threads": 4}]
)
def test_cases_with_the_same_result_share_a_reference(change: dict[str, object]) -> None:
    case = make_case(mode="train", **change)
    assert reference_case(case) == make_case(mode="train")


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "lstm"},
        {"mode": "infer", "optimizer": None},
        {"device": "cuda"},
        {"precision": "bf16"},
        {"batch": 7},
        {"sizes": {"width": 65}},
        {"optimizer": "adam"},
    ],
)
def test_cases_with_different_results_have_different_references(change: dict[str, object]) -> None:
    train = {"mode": "train", "optimizer": "sgd"}
    assert reference_case(make_case(**train | change)) != reference_case(make_case(**train))


def test_a_record_names_the_versions_of_a_rung_in_an_environment() -> None:
    """Where they are not those of the running interpreter; what a build adds to a version is no other version."""
    environment = Environment(machine={}, software={"torch": "2.10.0+cu128"}, flags={}, circumstances={})
    packages = {}
    for version in ("2.9.1", "2.10.0"):
        round_ = make_round(packages={"torch": version, "timm": "1.0"})
        packages[version] = make_record(make_case(), [round_], environment, "run").environment.packages
    assert packages == {"2.9.1": {"torch": "2.9.1", "timm": "1.0"}, "2.10.0": {"timm": "1.0"}}
