"""One node of a fleet that measures for a check: the driver decides after every round what comes next."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, TareError
from tare.execute.fleet.fleet import Fleet
from tare.execute.fleet.messages import (
    Doing,
    MeasureRound,
    NodeLost,
    NodeMessage,
    OpenVersion,
    Order,
    RenewServers,
    RoundMeasured,
    Surveyed,
    VersionOpened,
)
from tare.records.environment import Environment
from tare.records.record import Round

Answer = TypeVar("Answer", bound=NodeMessage)


class NodeIsLost(TareError):
    """The node that measured is gone, or its program: both sides of the cases that it has not finished begin anew
    on another node."""


class NodeSession:
    def __init__(self, fleet: Fleet, name: str) -> None:
        self._fleet, self.name = fleet, name

    @property
    def environment(self) -> Environment:
        environment = self._fleet.nodes[self.name].environment
        assert environment is not None, "a node that is chosen has been looked at"
        return environment

    def open(self) -> Environment:
        """Starts the program of a node that was stopped meanwhile."""
        self._fleet.cluster.start(self.name)
        self._fleet.note_survey(self.name, self._ask(self._fleet.survey_order(self.name), Surveyed))
        return self.environment

    def open_version(self, python: str, variables: Mapping[str, str]) -> Environment:
        """Opens the executor of the baseline's version; an empty `python` is the node's own interpreter."""
        opened = self._ask(OpenVersion(python=python, variables=dict(variables)), VersionOpened)
        if opened.environment is None:
            raise BadInput(f"cannot measure the baseline's version on node {self.name}: {opened.fault}")
        return opened.environment

    def renew_servers(self, cases: Sequence[Case]) -> None:
        # The node obeys in order: the next round waits for its servers.
        self._fleet.cluster.send(self.name, RenewServers(cases=list(cases)))

    def measure(self, order: MeasureRound) -> Round:
        return self._ask(order, RoundMeasured).round

    def _ask(self, order: Order, answer: type[Answer]) -> Answer:
        self._fleet.cluster.send(self.name, order)
        while True:
            for name, message in self._fleet.cluster.receive(1.0):
                if name != self.name:
                    continue
                if isinstance(message, answer):
                    return message
                if isinstance(message, Doing):
                    self._fleet.listener.stage_changed(message.text)
                elif isinstance(message, NodeLost):
                    self._fleet.cluster.stop(name)
                    self._fleet.leave_out(name, message.reason)
                    raise NodeIsLost(f"node {name} was lost: {message.reason}")


class NodeExecutor:
    """The Executor of one version on a node."""

    def __init__(self, session: NodeSession, version: int) -> None:
        self._session, self._version = session, version

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:
        return self._session.measure(
            MeasureRound(version=self._version, case=case, index=index, options=options, check=check)
        )
