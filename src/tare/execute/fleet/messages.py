"""What the driver and the program of a node say to each other: orders in, messages out, one a line (JSON)."""

from collections.abc import Callable
from functools import reduce
from operator import or_

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.source import ModelSource
from tare.measure.health import Check
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.records.record import Record, Round
from tare.system.repository import Repository


class Order(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """What the driver asks of a node."""


class Survey(Order, frozen=True, kw_only=True):
    """Say what the node is, which must have the driver's version of `tare`. `axes` are the values of the fields of
    cases that decide what the fork server imports (tare.execute.preload), `models` the users' models that the plan
    names."""

    node: str
    tare: str
    isolation: str
    timeout: float
    axes: dict[str, list[str]]
    models: list[ModelSource] = []


class Consider(Order, frozen=True, kw_only=True):
    """Say which of these cases the node cannot measure. Without `build`, what is not built yet is one of them."""

    cases: list[Case]
    memory: int | None = None
    build: bool = True


class MeasureLadder(Order, frozen=True, kw_only=True):
    """Measure cases together, except for the rounds that there are."""

    number: int
    run: str
    cases: list[Case]
    options: Options
    rounds: dict[str, list[Round]] = {}
    projects: dict[str, Repository] = {}
    tags: dict[str, str] = {}
    fail_fast: bool = False


class OpenVersion(Order, frozen=True, kw_only=True):
    """Open an executor of another version, for a check: by this interpreter, or the node's own, with these
    variables."""

    python: str
    variables: dict[str, str]


class RenewServers(Order, frozen=True, kw_only=True):
    """Start new fork servers for all versions, with what these cases need."""

    cases: list[Case]


class MeasureRound(Order, frozen=True, kw_only=True):
    """Measure one round on a version: 0 is the driver's, 1 the one that was opened."""

    version: int
    case: Case
    index: int
    options: Options
    check: bool


class NodeMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """What a node says."""


class Surveyed(NodeMessage, frozen=True, kw_only=True):
    """`faults` says, by the name of a user's model, why the node cannot use it."""

    probed: Probed
    checks: list[Check]
    faults: dict[str, str] = {}


class Considered(NodeMessage, frozen=True, kw_only=True):
    """Cause and reason for each case that the node cannot measure, by its key."""

    refusals: dict[str, tuple[str, str]]


class Doing(NodeMessage, frozen=True, kw_only=True):
    """A stage, for the user."""

    text: str


class RoundStarted(NodeMessage, frozen=True, kw_only=True):
    case: Case
    index: int


class RoundDone(NodeMessage, frozen=True, kw_only=True):
    number: int
    case: Case
    round: Round


class RecordDone(NodeMessage, frozen=True, kw_only=True):
    number: int
    record: Record


class LadderDone(NodeMessage, frozen=True, kw_only=True):
    """`failed_fast`: a case failed, and the order said to stop then."""

    number: int
    failed_fast: bool = False


class VersionOpened(NodeMessage, frozen=True, kw_only=True):
    """What the other version is there, or why it cannot be run there."""

    environment: Environment | None = None
    fault: str = ""


class RoundMeasured(NodeMessage, frozen=True, kw_only=True):
    round: Round


class NodeLost(NodeMessage, frozen=True, kw_only=True):
    """The node or its program has ended, or cannot do what it was asked. The cluster says so as well, for a node
    that no longer speaks: `is_gone` where the whole machine is away."""

    reason: str
    is_gone: bool = False


SendMessage = Callable[[NodeMessage], None]
encode_line = msgspec.json.encode
_orders = msgspec.json.Decoder(reduce(or_, Order.__subclasses__()))
_messages = msgspec.json.Decoder(reduce(or_, NodeMessage.__subclasses__()))


def read_order(line: bytes | str) -> Order:
    order: Order = _orders.decode(line)
    return order


def read_node_message(line: bytes | str) -> NodeMessage:
    """msgspec.DecodeError for whatever is no message of a node."""
    try:
        message: NodeMessage = _messages.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    return message
