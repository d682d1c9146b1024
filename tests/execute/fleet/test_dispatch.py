"""The driver with nodes that measure nothing: what arrives in which order, who is lost, what is stored."""

from collections import Counter
from collections.abc import Sequence

import pytest
from builders import make_case, make_failure, make_round
from hypothesis import given, settings
from hypothesis import strategies as st
from mock_fleets import FleetJournal, MockCluster, MockMachine, open_fleet

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.fleet.dispatch import Dispatcher, FleetSettings
from tare.execute.fleet.schedule import MOST_LOSSES, LadderPortion, make_portions
from tare.execute.runner import FirstFailure
from tare.records.record import Round

ROUNDS = 3
CASES = [make_case(batch=batch, rung=rung) for batch in (1, 2, 3, 4) for rung in ("eager", "compile")]


@pytest.fixture(autouse=True)
def nothing_to_examine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at this machine's load takes a moment, and is tested where it is."""
    monkeypatch.setattr("tare.execute.fleet.node.examine", lambda _: [])


def machines(count: int) -> dict[str, MockMachine]:
    return {f"node-{i}": MockMachine() for i in range(1, count + 1)}


def dispatch(
    cluster: MockCluster, journal: FleetJournal, cases: Sequence[Case] = CASES, fail_fast: bool = False
) -> list[LadderPortion]:
    """The portions that no node was left for."""
    fleet = open_fleet(cluster, journal)
    pending = [case for case in cases if journal.record(case) is None]
    measurable = {node.name: set(cases) for node in fleet.usable}
    settings = FleetSettings(Options(rounds=ROUNDS), fail_fast, tags={"night": "1"})
    return Dispatcher(fleet, make_portions(pending, measurable), settings, journal).run()


def assert_sound(journal: FleetJournal, cases: Sequence[Case] = CASES) -> None:
    """Every case has one record, its rounds are whole and of one node, and so is its ladder."""
    assert set(journal.saved_records) == set(cases)
    ladders: dict[str, set[str]] = {}
    for case, record in journal.saved_records.items():
        assert [done.index for done in record.rounds] == list(range(ROUNDS))
        nodes = {done.node for done in record.rounds}
        assert nodes == {record.environment.circumstances["node"]}
        ladders.setdefault(case.ladder, set()).update(nodes)
    assert all(len(nodes) == 1 for nodes in ladders.values())


def test_a_plan_is_measured_on_all_nodes() -> None:
    cluster, journal = MockCluster(machines(2), lambda names: names[-1]), FleetJournal()
    assert dispatch(cluster, journal) == []
    assert_sound(journal)
    assert all(machine.measured for machine in cluster.machines.values())
    record = journal.saved_records[CASES[0]]
    assert (record.run, record.tags) == (journal.run, {"night": "1"})


def test_the_rungs_of_a_ladder_are_interleaved_on_their_node() -> None:
    cluster, journal = MockCluster(machines(1)), FleetJournal()
    dispatch(cluster, journal, CASES[:2])
    eager, compiled = (case.key for case in CASES[:2])
    assert cluster.machines["node-1"].measured == [
        (eager, 0), (compiled, 0), (eager, 1), (compiled, 1), (eager, 2), (compiled, 2)
    ]  # fmt: skip


@settings(max_examples=40)
@given(st.data())
def test_whatever_is_lost_the_records_are_those_of_one_machine(data: st.DataObject) -> None:
    """Any order of messages, any node lost at any time, as long as one stays."""

    def lose(names: Sequence[str]) -> tuple[str, bool] | None:
        losable = [name for name in names if name != "node-1"]
        if not losable or data.draw(st.integers(0, 5)) != 0:
            return None
        return data.draw(st.sampled_from(losable)), data.draw(st.booleans())

    cluster = MockCluster(machines(3), lambda names: data.draw(st.sampled_from(names)))
    journal = FleetJournal()
    fleet = open_fleet(cluster, journal)
    cluster._lose = lose
    measurable = {node.name: set(CASES) for node in fleet.usable}
    dispatcher = Dispatcher(
        fleet, make_portions(CASES, measurable), FleetSettings(Options(rounds=ROUNDS)), journal
    )
    waiting = dispatcher.run()
    given_up = {case for portion in dispatcher.schedule.given_up for case in portion.cases}
    assert waiting == []
    failed = {case: journal.saved_records.pop(case) for case in given_up}
    assert all(record.failure and "was lost 3 times" in record.failure.message for record in failed.values())
    assert_sound(journal, [case for case in CASES if case not in given_up])
    assert journal.saved_rounds == {}


def test_a_node_that_is_gone_loses_its_rounds_and_says_so() -> None:
    """Its ladder begins anew elsewhere, all rungs of it."""
    heard: list[str] = []

    def lose(_: Sequence[str]) -> tuple[str, bool] | None:
        is_due = bool(journal.saved_rounds.get(CASES[1])) and not heard
        heard.extend(["now"] if is_due else [])
        return ("node-1", True) if is_due else None

    cluster, journal = MockCluster(machines(2), lambda names: names[0], lose), FleetJournal()
    dispatch(cluster, journal)
    assert_sound(journal)
    assert journal.dropped == 2
    assert any("begins anew on node-2; 2 rounds of node-1 are dropped" in line for line in journal.lines)
    assert any("node-1 is left out: a planted loss" in line for line in journal.lines)


def test_a_program_that_is_lost_on_a_node_that_stays_goes_on_with_its_rounds() -> None:
    heard: list[str] = []

    def lose(_: Sequence[str]) -> tuple[str, bool] | None:
        is_due = len(journal.saved_rounds.get(CASES[0], [])) == 2 and not heard
        heard.extend(["now"] if is_due else [])
        return ("node-1", False) if is_due else None

    cluster, journal = MockCluster(machines(1), lose=lose), FleetJournal()
    dispatch(cluster, journal)
    assert_sound(journal)
    assert journal.dropped == 0
    assert cluster.started == ["node-1", "node-1"]
    assert any("node-1 was lost while it measured" in line for line in journal.lines)
    # The simulated node had measured the whole ladder before its messages were lost: what was stored stays.
    again = Counter(cluster.machines["node-1"].measured)
    assert again[CASES[0].key, 0] == again[CASES[0].key, 1] == 1
    assert again[CASES[0].key, 2] == 2


def test_a_driver_that_was_killed_goes_on_with_what_is_missing() -> None:
    """With the rounds of a node that is still there, and without those of another."""
    cluster, journal = MockCluster(machines(2)), FleetJournal()
    first, second = CASES[0], CASES[2]
    journal.saved_rounds = {first: [make_round(0, node="node-2")], second: [make_round(0, node="gone")]}
    dispatch(cluster, journal)
    assert_sound(journal)
    assert journal.dropped == 1
    assert (first.key, 0) not in cluster.machines["node-1"].measured + cluster.machines["node-2"].measured
    assert {done.node for done in journal.saved_records[first].rounds} == {"node-2"}


def test_rounds_of_two_nodes_make_no_record() -> None:
    cluster, journal = MockCluster(machines(2)), FleetJournal()
    rounds = [make_round(0, node="node-1"), make_round(1, node="node-2")]
    journal.saved_rounds = {CASES[0]: rounds}
    dispatch(cluster, journal)
    assert_sound(journal)
    assert journal.dropped == 2


def test_records_that_are_there_are_not_measured_again() -> None:
    journal = FleetJournal()
    dispatch(MockCluster(machines(1)), journal)
    cluster = MockCluster(machines(2))
    assert dispatch(cluster, journal) == []
    assert not any(machine.measured for machine in cluster.machines.values())


def test_without_a_node_what_is_missing_waits() -> None:
    def lose(names: Sequence[str]) -> tuple[str, bool] | None:
        return (names[0], True) if len(journal.saved_records) >= 4 else None

    cluster, journal = MockCluster(machines(2), lambda names: names[0], lose), FleetJournal()
    waiting = dispatch(cluster, journal)
    missing = {case for portion in waiting for case in portion.cases}
    assert missing == set(CASES) - set(journal.saved_records)
    assert 4 <= len(journal.saved_records) < len(CASES)


def test_a_ladder_that_ends_every_node_is_recorded_as_failed() -> None:
    bad = CASES[0]
    held: dict[str, bool] = {}

    def lose(names: Sequence[str]) -> tuple[str, bool] | None:
        for name in names:
            if any(key == bad.key for key, _ in cluster.machines[name].measured) and name not in held:
                held[name] = True
                return name, True
        return None

    cluster = MockCluster(machines(MOST_LOSSES + 2), lose=lose)
    journal = FleetJournal()
    assert dispatch(cluster, journal) == []
    failed = [journal.saved_records.pop(case) for case in CASES[:2]]
    assert all(record.failure is not None for record in failed)
    assert failed[0].failure is not None
    assert failed[0].failure.cause == "no-result"
    message = failed[0].failure.message
    assert "lost 3 times while it measured this ladder: node-1 (a planted loss), node-" in message
    # The machines that are left have measured everything else.
    assert_sound(journal, CASES[2:])


def test_a_case_that_fails_is_recorded_with_its_log() -> None:
    failure = make_failure()

    def make(case: Case, index: int) -> Round:
        return make_round(index, series=[], failure=failure) if case == CASES[0] else make_round(index)

    cluster, journal = MockCluster({"node-1": MockMachine(make=make)}), FleetJournal()
    dispatch(cluster, journal, CASES[:2])
    record = journal.saved_records[CASES[0]]
    assert record.failure == failure
    assert len(record.rounds) == 1
    assert journal.saved_records[CASES[1]].ok


def test_the_first_failure_ends_the_run_if_asked() -> None:
    machine = MockMachine(make=lambda _, index: make_round(index, series=[], failure=make_failure()))
    journal = FleetJournal()
    with pytest.raises(FirstFailure):
        dispatch(MockCluster({"node-1": machine}), journal, fail_fast=True)
    assert len(journal.saved_records) == 1
