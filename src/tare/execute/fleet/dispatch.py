"""The driver of a plan on a fleet: gives ladders to nodes, stores what comes back, survives the loss of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.fleet.fleet import Fleet
from tare.execute.fleet.messages import (
    Doing,
    LadderDone,
    MeasureLadder,
    NodeLost,
    NodeMessage,
    RecordDone,
    RoundDone,
    RoundStarted,
    Surveyed,
)
from tare.execute.fleet.schedule import LadderPortion, Schedule
from tare.execute.runner import FirstFailure, Journal, make_record
from tare.records.record import Failure, Record, Round
from tare.system.repository import Repository


class DroppingJournal(Journal, Protocol):
    """A journal from which the rounds of cases that begin anew can be dropped."""

    def drop_rounds(self, cases: Sequence[Case]) -> None: ...


class FleetSettings(NamedTuple):
    """What all ladders of a run have in common."""

    options: Options
    fail_fast: bool = False
    projects: Mapping[str, Repository] = MappingProxyType({})
    tags: Mapping[str, str] = MappingProxyType({})


@dataclass
class _Begun:
    """A portion that a node measures. Its records are stored when it is complete: until then it may have to begin
    anew on another node, and all rungs of a ladder come from one."""

    number: int
    portion: LadderPortion
    records: list[Record] = field(default_factory=list)


class Dispatcher:
    def __init__(
        self, fleet: Fleet, portions: Sequence[LadderPortion], settings: FleetSettings, journal: DroppingJournal
    ) -> None:
        self._fleet, self._settings, self._journal = fleet, settings, journal
        self._listener, self._cluster = fleet.listener, fleet.cluster
        for portion in portions:
            portion.home = self._home(portion)
        self.schedule = Schedule(portions, {node.name: node.kind for node in fleet.usable})
        self._begun: dict[str, _Begun] = {}
        self._number = 0
        self._reasons: dict[str, str] = {}

    def run(self) -> list[LadderPortion]:
        """Measures the portions; gives those that no node is left for. FirstFailure if a case failed and the
        settings say to stop then."""
        while not self.schedule.is_over:
            for name, portion in self.schedule.assign():
                self._begin(name, portion)
            for name, message in self._cluster.receive(1.0):
                self._hear(name, message)
        return self.schedule.pending

    def _home(self, portion: LadderPortion) -> str:
        """The node that has measured the rounds which an interrupted run has left, if it can go on."""
        homes = {round_.node for case in portion.cases for round_ in self._journal.rounds(case)}
        home = homes.pop() if len(homes) == 1 else ""
        return home if home in portion.able else ""

    def _begin(self, name: str, portion: LadderPortion) -> None:
        rounds = {case: self._journal.rounds(case) for case in portion.cases}
        others = sorted({round_.node or "this machine" for done in rounds.values() for round_ in done} - {name})
        if others:
            count = sum(map(len, rounds.values()))
            self._listener.say(
                f"{portion.name}: begins anew on {name}; {count} rounds of {', '.join(others)} are dropped",
                always=True,
            )
            for case, done in rounds.items():
                self._listener.rounds_dropped(case, len(done))
            self._journal.drop_rounds(portion.cases)
            rounds = {}
        self._number += 1
        self._begun[name] = _Begun(self._number, portion)
        order = MeasureLadder(
            number=self._number,
            run=self._journal.run,
            cases=portion.cases,
            options=self._settings.options,
            rounds={case.key: done for case, done in rounds.items() if done},
            projects=dict(self._settings.projects),
            tags=dict(self._settings.tags),
            fail_fast=self._settings.fail_fast,
        )
        self._listener.node_changed(name, portion.name)
        self._cluster.send(name, order)

    def _hear(self, name: str, message: NodeMessage) -> None:
        begun = self._begun.get(name)
        match message:
            case NodeLost():
                self._lose(name, message)
            case Surveyed():
                self._fleet.note_survey(name, message)
                self.schedule.came_back(name)
                self._listener.node_changed(name, "")
            case Doing():
                self._listener.node_changed(name, message.text)
            case RoundStarted(case=case, index=index):
                rounds = self._settings.options.rounds
                text = f"{case.workload} {case.rung} {case.mode} b{case.batch} {index + 1}/{rounds}"
                self._listener.node_changed(name, text)
            case RoundDone(case=case, round=round_) if self._is_of(begun, message.number, case):
                self._journal.add_round(case, round_)
                self._listener.round_finished(case, round_)
            case RecordDone(record=record) if begun and self._is_of(begun, message.number, record.case):
                begun.records.append(record)
            case LadderDone() if begun and begun.number == message.number:
                self._finish(name, begun, message.failed_fast)

    def _is_of(self, begun: _Begun | None, number: int, case: Case) -> bool:
        return begun is not None and begun.number == number and case in begun.portion.cases

    def _finish(self, name: str, begun: _Begun, failed_fast: bool) -> None:
        del self._begun[name]
        self.schedule.finish(name)
        for record in begun.records:
            self._journal.add_record(record)
            self._listener.record_finished(record)
        self._listener.node_changed(name, "")
        if failed_fast:
            raise FirstFailure

    def _lose(self, name: str, lost: NodeLost) -> None:
        self._cluster.stop(name)
        self._begun.pop(name, None)
        self._reasons[name] = lost.reason
        portion, comes_back = self.schedule.lose(name, lost.is_gone)
        if comes_back:
            doing = f" while it measured {portion.name}" if portion else ""
            self._listener.say(f"node {name} was lost{doing}: {lost.reason}; it is started again", always=True)
            self._listener.node_changed(name, "is started again")
            self._fleet.survey_again(name)
        else:
            self._fleet.leave_out(name, lost.reason)
            self._listener.node_changed(name, "")
        if portion in self.schedule.given_up:
            self._record_loss(portion)

    def _record_loss(self, portion: LadderPortion) -> None:
        """A ladder that has lost one node after another may be what ends them."""
        self._journal.drop_rounds(portion.cases)
        names = ", ".join(f"{name} ({self._reasons.get(name, 'lost')})" for name in portion.lost)
        failure = Failure(
            cause="no-result",
            message=f"its node was lost {len(portion.lost)} times while it measured this ladder: {names}",
            stage="fleet",
        )
        environment = self._fleet.nodes[portion.lost[-1]].environment
        assert environment is not None, "a node that measures has been looked at"
        for case in portion.cases:
            round_ = Round(
                index=0,
                started=datetime.now(UTC).isoformat(timespec="milliseconds"),
                seconds=0.0,
                isolation=self._settings.options.isolation,
                node=portion.lost[-1],
                failure=failure,
            )
            record = make_record(
                case, [round_], environment, self._journal.run,
                project=self._settings.projects.get(case.workload), tags=self._settings.tags,
            )  # fmt: skip
            self._journal.add_record(record)
            self._listener.record_finished(record)
