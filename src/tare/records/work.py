"""What one step computes and touches, counted operator by operator, and what a machine can do at most."""

import msgspec

from tare.records.environment import Environment


class OperatorWork(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal calls of one operator: the FLOPs and bytes of each. `precision` is that of its inputs."""

    name: str
    count: int
    flops: int
    bytes: int
    precision: str


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """`read` and `written` are the bytes that must pass whatever is fused: what the step takes from outside
    (weights, batch, optimizer state), and what it leaves there. `uncounted` operators compute nobody knows how
    much."""

    operators: list[OperatorWork]
    read: int
    written: int
    uncounted: list[str] = []

    @property
    def flops(self) -> int:
        return sum(one.count * one.flops for one in self.operators)


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """A ceiling: FLOP/s, bytes/s, or seconds. The best of the rounds' medians, for it is what can be reached."""

    name: str
    value: float
    unit: str
    rounds: list[float]


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """The ceilings of one device, with the environment they were measured in."""

    version: str = "1.0"
    device: str
    created: str
    environment: Environment
    peaks: list[Peak]

    def find(self, name: str) -> float | None:
        return next((peak.value for peak in self.peaks if peak.name == name), None)
