"""The FLOPs and bytes of one step, and the peaks of a machine."""

import msgspec

from tare.records.environment import Environment


class OperatorWork(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal calls of one operator; FLOPs and bytes are of each call, `precision` is that of its inputs."""

    name: str
    count: int
    flops: int
    bytes: int
    precision: str


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """`read` and `written` are the bytes that move even if everything is fused: weights, batch and optimizer state
    that the step reads, and what it writes back. `uncounted` lists operators without a FLOP formula."""

    operators: list[OperatorWork]
    read: int
    written: int
    uncounted: list[str] = []

    @property
    def flops(self) -> int:
        return sum(operator.count * operator.flops for operator in self.operators)


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The best value that any round reached, in FLOP/s, B/s or s; `rounds` has the best of each round."""

    name: str
    value: float
    unit: str
    rounds: list[float]


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """The peaks of one device with one number of CPU threads (None: torch's default) in one environment.

    `caveats` say why a roofline made from them may be wrong (a busy machine, other settings): whoever shows such a
    roofline has to show them too.
    """

    version: str = "1"
    device: str
    created: str
    environment: Environment
    threads: int | None = None
    peaks: list[Peak]
    caveats: list[str] = []

    def find(self, name: str) -> float | None:
        return next((peak.value for peak in self.peaks if peak.name == name), None)
