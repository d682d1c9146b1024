"""The machines of a cluster, as the driver sees them. The tests have a mock that measures nothing."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tare.execute.fleet.messages import NodeMessage, Order


class Member(NamedTuple):
    """A machine of the cluster. `unusable` says why it takes no work at all."""

    name: str
    host: str
    cores: float = 1.0
    gpus: float = 0.0
    unusable: str = ""


class Cluster(Protocol):
    def members(self) -> list[Member]:
        """The machines that are there now."""

    def start(self, name: str) -> None:
        """Starts the program of a node; what becomes of it, `receive` says."""

    def send(self, name: str, order: Order) -> None: ...

    def receive(self, wait_s: float) -> Sequence[tuple[str, NodeMessage]]:
        """What nodes have said, by their names. After NodeLost, a node says no more until it is started again."""

    def stop(self, name: str) -> None:
        """Ends a node's program, and what it measures."""
