"""The nodes of a fleet before they measure: what they are and can, whether they agree, and who is left out."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

import msgspec

import tare
from tare.cases.case import Case
from tare.cases.options import DEFAULT_ISOLATION, Isolation
from tare.cases.plan import Skip
from tare.cases.source import ModelSource
from tare.errors import TareError
from tare.execute.catalogue import ANY_MACHINE, LocalCatalogue
from tare.execute.fleet.calibration import (
    CALIBRATION,
    TAGS,
    Calibration,
    calibration_cases,
    compare_nodes,
    read_calibration,
)
from tare.execute.fleet.cluster import Cluster, Member
from tare.execute.fleet.messages import (
    Consider,
    Considered,
    Doing,
    LadderDone,
    MeasureLadder,
    NodeLost,
    NodeMessage,
    Order,
    RecordDone,
    RoundStarted,
    Survey,
    Surveyed,
)
from tare.execute.runner import Journal
from tare.measure.health import Check
from tare.records.environment import Environment
from tare.records.record import Record, Round
from tare.stats.agreement import LIMIT
from tare.system.repository import read_repository

# What every node must have in the driver's version.
VERSIONS = ("tare", "torch")
# Facts by which a user may choose nodes, besides the name and the host.
NODE_FACTS = ("arch", "cpu", "gpu", "cores", "memory_gib")


class NoNodes(TareError):
    """No node of the cluster can measure anything."""


class FleetNode(msgspec.Struct, kw_only=True):
    """A node as far as it is known. One that is `left_out`, with the reason, measures nothing."""

    name: str
    host: str
    cores: float
    gpus: float
    left_out: str = ""
    environment: Environment | None = None
    devices: list[str] = []
    checks: list[Check] = []
    notes: list[str] = []
    calibration: list[Calibration] = []

    @property
    def kind(self) -> str:
        """The same for machines of the same facts."""
        facts = self.environment.machine if self.environment else {}
        return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:8]

    @property
    def facts(self) -> dict[str, str]:
        machine = self.environment.machine if self.environment else {}
        return {"name": self.name, "host": self.host, **{name: machine.get(name, "") for name in NODE_FACTS}}

    def warnings(self) -> list[str]:
        return [f"{check.name}: {check.seen}" for check in self.checks if check.state == "warn"]


class FleetListener(Protocol):
    """Hears of progress on all nodes."""

    def stage_changed(self, stage: str) -> None: ...
    def node_changed(self, node: str, doing: str) -> None: ...
    def round_finished(self, case: Case, round_: Round) -> None: ...
    def rounds_dropped(self, case: Case, count: int) -> None: ...
    def record_finished(self, record: Record) -> None: ...
    def say(self, line: str, always: bool = False) -> None: ...


class FleetCatalogue(LocalCatalogue):
    """A plan's questions, answered for all nodes together. What a node cannot measure, it says itself."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(msgspec.structs.replace(ANY_MACHINE, devices=list(devices)))

    def refusal(self, case: Case) -> tuple[str, str] | None:  # noqa: ARG002
        return None


class Fleet:
    def __init__(self, cluster: Cluster, listener: FleetListener) -> None:
        self.cluster, self.listener = cluster, listener
        self.nodes: dict[str, FleetNode] = {}
        # What a node is asked first.
        self.survey_order: Callable[[str], Survey] = lambda _: _no_survey()

    @property
    def usable(self) -> list[FleetNode]:
        return [node for node in self.nodes.values() if not node.left_out]

    @property
    def devices(self) -> list[str]:
        """Of all nodes together, those of GPUs first, as on one machine."""
        devices = dict.fromkeys(device for node in self.usable for device in node.devices)
        return sorted(devices, key=lambda device: device == "cpu")

    def leave_out(self, name: str, reason: str) -> None:
        node = self.nodes[name]
        if not node.left_out:
            node.left_out = reason
            self.listener.say(f"node {name} is left out: {reason}", always=True)

    def require_nodes(self) -> None:
        if not self.usable:
            reasons = "; ".join(f"{node.name}: {node.left_out}" for node in self.nodes.values())
            raise NoNodes(f"no node of the cluster can measure ({reasons or 'it has none'})")

    def survey(
        self,
        wanted: Mapping[str, str],
        axes: Mapping[str, list[str]],
        models: Sequence[ModelSource] = (),
        isolation: Isolation = DEFAULT_ISOLATION,
        timeout: float = 600.0,
    ) -> None:
        """Starts the program of every node and asks what it is. `wanted` are facts that a node must have."""
        axes = dict(axes)
        models = list(models)
        self.survey_order = lambda name: Survey(
            node=name, tare=tare.__version__, isolation=isolation, timeout=timeout, axes=axes, models=models
        )
        members = self.cluster.members()
        self.nodes = {each.name: _node(each) for each in members}
        for member in members:
            # A node that is not wanted is not even asked: others may be using it.
            known = {name: value for name, value in wanted.items() if name in ("name", "host")}
            if reason := member.unusable or _unwanted(self.nodes[member.name], known):
                self.leave_out(member.name, reason)
        self.require_nodes()
        self.listener.stage_changed(f"looking at {len(self.usable)} nodes: half a minute")
        for node in self.usable:
            self.cluster.start(node.name)
        for name, message in self._exchange(self.survey_order, Surveyed):
            if isinstance(message, Surveyed):
                self.note_survey(name, message)
        for node in self.usable:
            if reason := _unwanted(node, wanted) or _other_versions(node.environment):
                self.cluster.stop(node.name)
                self.leave_out(node.name, reason)
        self._note_differences()
        self.require_nodes()

    def note_survey(self, name: str, message: Surveyed) -> None:
        node = self.nodes[name]
        node.environment, node.checks = message.probed.environment, message.checks
        node.devices = list(message.probed.devices)
        node.notes = list(message.faults.values())

    def survey_again(self, name: str) -> None:
        """Starts the program of a node again."""
        self.cluster.start(name)
        self.cluster.send(name, self.survey_order(name))

    def calibrate(self, open_journal: Callable[[str], Journal], limit: float = LIMIT) -> None:
        """Measures the small ladder on every node, and leaves out who is not like its peers."""
        self.listener.stage_changed(f"calibrating {len(self.usable)} nodes: half a minute")
        journals = {node.name: open_journal(node.name) for node in self.usable}

        def order(name: str) -> MeasureLadder:
            cases = calibration_cases(self.nodes[name].devices)
            return MeasureLadder(number=0, run=journals[name].run, cases=cases, options=CALIBRATION, tags=TAGS)

        for name, message in self._exchange(order, LadderDone):
            if isinstance(message, RecordDone):
                journals[name].add_record(message.record)
                self.nodes[name].calibration += read_calibration(message.record)
                if message.record.failure:
                    self.cluster.stop(name)
                    self.leave_out(name, f"its calibration failed: {message.record.failure.message}")
        self._judge(limit)
        self.require_nodes()

    def consider(
        self, cases: Sequence[Case], memory: int | None = None, build: bool = True
    ) -> tuple[dict[str, set[Case]], list[Skip]]:
        """What each node can measure, and the cases that none can, each with a reason."""
        order = Consider(cases=list(cases), memory=memory, build=build)
        measurable: dict[str, set[Case]] = {}
        refusals: dict[str, list[tuple[str, str]]] = {}
        for name, message in self._exchange(lambda _: order, Considered):
            if isinstance(message, Considered):
                measurable[name] = {case for case in cases if case.key not in message.refusals}
                for key, refusal in message.refusals.items():
                    refusals.setdefault(key, []).append(refusal)
        self.require_nodes()
        possible = set().union(*measurable.values())
        skips = []
        for case in cases:
            if case not in possible:
                cause, reason = Counter(refusals[case.key]).most_common(1)[0][0]
                skips.append(Skip(case.key, cause, f"on no node: {reason}"))
        return measurable, skips

    def _exchange(
        self, order: Callable[[str], Order], last: type[NodeMessage]
    ) -> Iterator[tuple[str, NodeMessage]]:
        """Sends each usable node its order, and gives what they say until each has sent its last message. A node
        that is lost meanwhile is left out."""
        waiting = {node.name for node in self.usable}
        for name in waiting:
            self.cluster.send(name, order(name))
        # Whoever hears a message may leave its node out.
        while waiting := {name for name in waiting if not self.nodes[name].left_out}:
            for name, message in self.cluster.receive(1.0):
                if isinstance(message, Doing):
                    self.listener.node_changed(name, message.text)
                elif isinstance(message, RoundStarted):
                    self.listener.node_changed(name, f"{message.case.workload} {message.index + 1}")
                elif isinstance(message, NodeLost):
                    self.cluster.stop(name)
                    self.leave_out(name, message.reason)
                    waiting.discard(name)
                else:
                    if isinstance(message, last):
                        self.listener.node_changed(name, "")
                        waiting.discard(name)
                    yield name, message

    def _judge(self, limit: float) -> None:
        groups: dict[tuple[str, str], dict[str, Calibration]] = {}
        for node in self.usable:
            for calibration in node.calibration:
                groups.setdefault((node.kind, calibration.device), {})[node.name] = calibration
        for measured in groups.values():
            for name, reason in compare_nodes(measured, limit).items():
                self.cluster.stop(name)
                self.leave_out(name, reason)

    def _note_differences(self) -> None:
        """Software besides tare and torch may differ between nodes; their records then say so, and so do we."""
        software = [node.environment.software for node in self.usable if node.environment]
        names = sorted({name for each in software for name in each})
        for name in names:
            values = Counter(each.get(name, "absent") for each in software)
            if len(values) > 1:
                usual = values.most_common(1)[0][0]
                for node in self.usable:
                    own = node.environment.software.get(name, "absent") if node.environment else usual
                    if own != usual:
                        node.notes.append(f"{name} {own}, where most nodes have {usual}")


def _node(member: Member) -> FleetNode:
    return FleetNode(name=member.name, host=member.host, cores=member.cores, gpus=member.gpus)


def _no_survey() -> Survey:
    raise RuntimeError("the nodes have not been looked at yet")


def _unwanted(node: FleetNode, wanted: Mapping[str, str]) -> str:
    """Why the user did not ask for this node, or nothing."""
    facts = node.facts
    for name, value in wanted.items():
        if facts[name] != value:
            return f"its {name} is '{facts[name]}', not '{value}' (--node)"
    return ""


@cache
def own_versions() -> dict[str, str]:
    """What must be the same on every node: tare with its commit, and torch."""
    versions = {"tare": tare.__version__}
    try:
        versions["torch"] = version("torch")
    except PackageNotFoundError:
        versions["torch"] = "absent"
    root = Path(tare.__file__).resolve().parents[2]
    if (root / ".git").exists() and (checkout := read_repository(root)):
        versions["commit"] = checkout.commit
    return versions


def _other_versions(environment: Environment | None) -> str:
    """What of tare and torch differs from the driver's, or nothing. Builds of one version may differ: a driver
    needs no GPU (2.10.0+cpu), and a machine without git tells no commit."""
    if environment is None:
        return "it did not say what it is"
    own = own_versions()
    for name in VERSIONS:
        there = environment.software.get(name, "absent")
        if there.partition("+")[0] != own[name].partition("+")[0]:
            return f"it has {name} {there}, and here it is {own[name]}"
    commit = environment.circumstances.get("tare_commit", "").partition("+")[0]
    if commit and "commit" in own and commit != own["commit"]:
        return f"it has tare at commit {commit[:9]}, and here it is at {own['commit'][:9]}"
    return ""
