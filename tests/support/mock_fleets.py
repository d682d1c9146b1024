"""A cluster without machines: each node is the program of a real node with an executor that measures nothing, and
a test decides what arrives when, and who is lost."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from builders import ENVIRONMENT, make_round
from mock_runs import MemoryJournal

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.fleet.cluster import Member
from tare.execute.fleet.fleet import Fleet, own_versions
from tare.execute.fleet.messages import NodeLost, NodeMessage, Order, encode_line, read_node_message, read_order
from tare.execute.fleet.node import Node
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.records.record import Record, Round

# Chooses one of several names: what is heard next.
Choose = Callable[[Sequence[str]], str]


@dataclass
class MockMachine:
    """What a node is: its facts, the versions that differ from the driver's, and how fast it measures, also the
    version of a check's baseline."""

    machine: dict[str, str] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=lambda: ["cpu"])
    step_s: float = 1e-3
    old_step_s: float = 1e-3
    make: Callable[[Case, int], Round] | None = None
    measured: list[tuple[str, int]] = field(default_factory=list)
    renewed: list[tuple[str, ...]] = field(default_factory=list)

    def environment(self) -> Environment:
        own = {name: version for name, version in own_versions().items() if name != "commit"}
        return msgspec.structs.replace(
            ENVIRONMENT,
            machine={**ENVIRONMENT.machine, **self.machine},
            software={**ENVIRONMENT.software, **own, **self.software},
            circumstances={"host": "tester"},
        )

    # An executor, as far as a node needs one.

    def probe(self, subject: str = "this machine") -> Probed:  # noqa: ARG002
        absent: dict[str, Any] = {device: {} for device in self.devices}
        gpus: dict[str, str] = {}
        return Probed(
            devices=self.devices, absent=absent, missing_packages={}, gpus=gpus, environment=self.environment()
        )

    def run_round(self, case: Case, index: int, options: Options, check: bool) -> Round:  # noqa: ARG002
        self.measured.append((case.key, index))
        return self.make(case, index) if self.make else make_round(index, self.step_s)

    def say_wait(self, holder: str) -> None: ...

    @property
    def launcher(self) -> "MockMachine":
        return self

    def renew(self, preload: tuple[str, ...]) -> None:
        self.renewed.append(preload)


class MockCluster:
    """`lose` decides, whenever something is to be heard, whether a node is lost instead: its name and whether the
    machine is gone, or None."""

    def __init__(
        self,
        machines: dict[str, MockMachine],
        choose: Choose = lambda names: names[0],
        lose: Callable[[Sequence[str]], tuple[str, bool] | None] = lambda _: None,
    ) -> None:
        self.machines, self._choose, self._lose = machines, choose, lose
        self.started: list[str] = []
        self.stopped: list[str] = []
        self._gone: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._said: dict[str, deque[NodeMessage]] = {}

    def members(self) -> list[Member]:
        return [Member(name, "tester", 2.0) for name in self.machines if name not in self._gone]

    def start(self, name: str) -> None:
        self.started.append(name)
        self._said[name] = deque()
        self._nodes[name] = Node(self._hearing(name), self._open_executor(name))

    def send(self, name: str, order: Order) -> None:
        if name in self._nodes:
            self._nodes[name].obey(read_order(encode_line(order)))

    def receive(self, wait_s: float) -> Sequence[tuple[str, NodeMessage]]:  # noqa: ARG002
        speaking = sorted(name for name, said in self._said.items() if said)
        assert speaking, "the driver waits for a node that has nothing to say"
        lost = self._lose(sorted(self._said))
        if lost is not None:
            name, is_gone = lost
            return [(name, self.lose(name, is_gone))]
        name = self._choose(speaking)
        return [(name, self._said[name].popleft())]

    def stop(self, name: str) -> None:
        self.stopped.append(name)
        self._said.pop(name, None)
        self._nodes.pop(name, None)

    def lose(self, name: str, is_gone: bool) -> NodeLost:
        self._said.pop(name)
        self._nodes.pop(name)
        if is_gone:
            self._gone.add(name)
        return NodeLost(reason="a planted loss", is_gone=is_gone)

    def _hearing(self, name: str) -> Callable[[NodeMessage], None]:
        said = self._said[name]
        return lambda message: said.append(read_node_message(encode_line(message)))

    def _open_executor(self, name: str) -> Any:
        machine = self.machines[name]

        @contextlib.contextmanager
        def open_executor(*arguments: Any) -> Iterator[Any]:
            # Another version has an interpreter and variables of its own, and shares what is counted.
            is_old = len(arguments) > 3
            yield replace(machine, step_s=machine.old_step_s) if is_old else machine

        return open_executor


@dataclass
class FleetJournal(MemoryJournal):
    """A driver's journal in memory, and its listener: it refuses a record that is there."""

    lines: list[str] = field(default_factory=list)
    dropped: int = 0

    def add_record(self, record: Record) -> None:
        assert record.case not in self.saved_records, f"{record.case.key} is stored twice"
        super().add_record(record)
        self.saved_rounds.pop(record.case, None)

    def drop_rounds(self, cases: Sequence[Case]) -> None:
        for case in cases:
            self.dropped += len(self.saved_rounds.pop(case, []))

    def node_changed(self, node: str, doing: str) -> None: ...
    def rounds_dropped(self, case: Case, count: int) -> None: ...

    def say(self, line: str, always: bool = False) -> None:  # noqa: ARG002
        self.lines.append(line)


def open_fleet(cluster: MockCluster, journal: FleetJournal) -> Fleet:
    """A fleet whose nodes have been looked at."""
    fleet = Fleet(cluster, journal)
    fleet.survey({}, {"rung": ["eager"]})
    return fleet
