"""Interleaved measurement of two versions whose processes share a planted pace of their fork server."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import ENVIRONMENT, make_case, make_round
from mock_runs import SilentListener

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.runner import Target
from tare.guard.changes import Report
from tare.guard.check import RegressionCheck
from tare.guard.compare import Rules
from tare.guard.interleave import InterimAnalyses, RestartServers, measure_interleaved
from tare.guard.metrics import get_metrics
from tare.guard.thresholds import Thresholds
from tare.records.record import Record, Round
from tare.stats.two_stage import FUTILE_P, MAX_CONFIRM
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin

CASES = [make_case(batch=n) for n in range(1, 7)]
# Standard deviations of a case between servers (memory layout), and between the processes of one server.
SERVER, PROCESS = 0.05, 0.01


class Served:
    """An executor with a server: it has a pace of its own for each case, which all its processes share."""

    def __init__(self, seed: int, said: list[str], name: str, slower: float = 0.0) -> None:
        self._drawn, self._said, self._name, self._slower = random.Random(seed), said, name, slower
        self.renew()

    def renew(self) -> None:
        self._paces = {case: self._drawn.gauss(0, SERVER) for case in CASES}

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:  # noqa: ARG002
        self._said.append(f"{self._name} {case.batch} {index}")
        slower = self._slower if case == CASES[0] else 0.0
        return make_round(index, 1e-3 * math.exp(self._paces[case] + slower + self._drawn.gauss(0, PROCESS)))


class Both:
    """Two versions with a server each, in a store of their own."""

    def __init__(self, folder: Path, seed: int = 1, slower: float = 0.0) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        self.said: list[str] = []
        self._store = Store(str(folder / "sides.db"))
        self._executors = [Served(2 * seed, self.said, "now", slower), Served(2 * seed + 1, self.said, "before")]
        self._journals: dict[str, list[StoreJournal]] = {}

    def renew(self, cases: Sequence[Case]) -> None:  # noqa: ARG002
        self.said.append("renewed")
        for executor in self._executors:
            executor.renew()

    def sides(self, stage: str) -> list[Target[Executor]]:
        if stage not in self._journals:
            self._journals[stage] = [begin(self._store, stage, stage, []) for _ in self._executors]
        return [Target(e, ENVIRONMENT, j) for e, j in zip(self._executors, self._journals[stage], strict=True)]

    def records(self, stage: str) -> list[Record]:
        return [r for case in CASES for j in self._journals.get(stage, []) if (r := j.record(case))]

    def check(self, renew: RestartServers) -> Report:
        rules = Rules(Thresholds(), get_metrics(["gross"]))
        return RegressionCheck(Options(rounds=6), rules, self.sides, SilentListener(), [], renew).run(CASES)


def alarms(tmp_path: Path, restarted: bool, checks: int) -> int:
    settings = [Both(tmp_path / str(seed), seed) for seed in range(checks)]
    return sum(
        bool(setting.check(setting.renew if restarted else lambda _: None).exit_code) for setting in settings
    )


@pytest.mark.parametrize("checks", [3, pytest.param(25, marks=pytest.mark.full)])
def test_a_pace_that_a_server_shares_with_its_workers_raises_no_alarm(tmp_path: Path, checks: int) -> None:
    """Because servers are restarted for every round. With one server a side it would be confirmed as a change, so
    the planted pace is large enough to mean something."""
    assert alarms(tmp_path / "restarted", True, checks) == 0
    assert alarms(tmp_path / "kept", False, checks) > checks / 2


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3, 4))])
def test_a_true_change_is_found_among_servers_that_differ(tmp_path: Path, seed: int) -> None:
    setting = Both(tmp_path, seed, slower=math.log(1.15))
    assert [case.case for case in setting.check(setting.renew).bad] == [CASES[0].key]


def test_servers_are_renewed_for_every_round_of_all_cases(tmp_path: Path) -> None:
    both = Both(tmp_path)
    rounds = {CASES[0]: Options(rounds=2), CASES[1]: Options(rounds=4)}
    records = measure_interleaved(rounds, both.sides("first"), SilentListener(), both.renew)
    assert [[len(record.rounds) for record in side] for side in records] == [[2, 4], [2, 4]]
    parts = " ".join(both.said).split("renewed")
    assert parts[0] == ""
    measured = [sorted(part.split()[i + 1] for i in range(0, len(part.split()), 3)) for part in parts[1:]]
    # Each case on both sides in its rounds, and the longer one alone when the other has all of its own.
    assert measured == [["1", "1", "2", "2"]] * 2 + [["2", "2"]] * 2


def test_a_pair_is_measured_together(tmp_path: Path) -> None:
    both = Both(tmp_path)
    measure_interleaved(dict.fromkeys(CASES, Options(rounds=8)), both.sides("first"), SilentListener(), both.renew)
    said = [one for one in both.said if one != "renewed"]
    pairs = [(said[i].split(), said[i + 1].split()) for i in range(0, len(said), 2)]
    assert all(one[1:] == other[1:] and {one[0], other[0]} == {"now", "before"} for one, other in pairs)


def test_nothing_is_renewed_for_rounds_that_are_there_already(tmp_path: Path) -> None:
    both = Both(tmp_path)
    cases = dict.fromkeys(CASES, Options(rounds=3))
    measure_interleaved(cases, both.sides("first"), SilentListener(), both.renew)
    both.said.clear()
    measure_interleaved(cases, both.sides("first"), SilentListener(), both.renew)
    assert both.said == []


INTERIM_ROUNDS = 7


def first_is_decided(case: Case, rounds: Sequence[list[Round]]) -> bool:
    assert [len(side) for side in rounds] == [INTERIM_ROUNDS, INTERIM_ROUNDS]
    return case == CASES[0]


INTERIM = InterimAnalyses(dict.fromkeys(CASES, (INTERIM_ROUNDS,)), first_is_decided)


def test_a_futile_case_stops_with_a_record(tmp_path: Path) -> None:
    both = Both(tmp_path)
    cases = dict.fromkeys(CASES[:2], Options(rounds=INTERIM_ROUNDS + 3))
    records = measure_interleaved(cases, both.sides("first"), SilentListener(), both.renew, INTERIM)
    assert [[len(record.rounds) for record in side] for side in records] == [
        [INTERIM_ROUNDS, INTERIM_ROUNDS + 3]
    ] * 2
    assert both.said.count("renewed") == INTERIM_ROUNDS + 3


def test_a_resumed_run_stops_the_same_cases(tmp_path: Path) -> None:
    """Interrupted after the interim analysis, before the second version's record of the futile case was
    written."""
    both = Both(tmp_path)
    cases = dict.fromkeys(CASES[:2], Options(rounds=INTERIM_ROUNDS + 3))

    class Interrupted(SilentListener):
        def record_finished(self, record: Record) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_interleaved(cases, both.sides("first"), Interrupted(), both.renew, INTERIM)
    records = measure_interleaved(cases, both.sides("first"), SilentListener(), both.renew, INTERIM)
    assert [[len(record.rounds) for record in side] for side in records] == [
        [INTERIM_ROUNDS, INTERIM_ROUNDS + 3]
    ] * 2


def test_noise_and_certain_changes_cost_few_rounds_of_confirmation(tmp_path: Path) -> None:
    """One case is much slower, the others are only noisy: nearly all stop at an interim analysis."""
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for seed in range(4):
        both = Both(tmp_path / str(seed), seed, slower=math.log(1.7))
        assert [case.case for case in both.check(both.renew).bad] == [CASES[0].key]
        for record in both.records("confirmation"):
            lengths[record.case == CASES[0]].append(len(record.rounds))
    assert max(lengths[True]) < MAX_CONFIRM
    assert sum(length in FUTILE_P for length in lengths[False]) > len(lengths[False]) / 2


def test_each_version_is_first_equally_often_in_the_first_measurement(tmp_path: Path) -> None:
    both = Both(tmp_path)
    measure_interleaved(dict.fromkeys(CASES, Options(rounds=6)), both.sides("first"), SilentListener(), both.renew)
    said = [each.split() for each in both.said if each != "renewed"]
    first = [(name, case) for name, case, _ in said[::2]]
    assert {case: first.count(("now", case)) for _, case in first} == {str(case.batch): 3 for case in CASES}
    # In an order of its own for each case.
    assert len({tuple(name for name, each in first if each == str(case.batch)) for case in CASES}) > 1
