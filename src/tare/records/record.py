"""The record of a case: what was measured, where, in which rounds, with every raw sample.

The version is major.minor: a reader takes any minor of its major and refuses another major.
"""

from typing import Annotated, Literal

import msgspec

from tare.cases.case import Case, Count
from tare.records.environment import Environment

VERSION = "1.2"

Cause = Literal[
    "exception",
    "signal",
    "host-oom",
    "device-oom",
    "timeout",
    "no-result",
    "unsupported",
    "not-installed",
    "nan",
    "unsynchronised",
]
SeriesKind = Literal["warmup", "pipelined", "latency"]
Stop = Literal["width", "budget", "steady", "unsteady"]
# Throughput rises no more, memory is full, a step has outgrown the time for it, another failure than memory's, or
# no larger batch is tried.
SearchStop = Literal["throughput", "memory", "time", "failure", "largest"]
ParityStatus = Literal["same", "different", "nan", "unchecked"]

# Bounded, because a larger number can be read but neither written again nor turned into a float.
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Steps = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
# Files are named by it.
Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z_][0-9A-Za-z_.+-]*\Z", max_length=64)]
Moment = Annotated[
    str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d[0-9:.]*(Z|[+-]\d\d:\d\d)?\Z", max_length=40)
]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Timed blocks of one kind. Entry i took wall_ns[i] for steps[i] steps and began at at_ns[i]."""

    kind: SeriesKind
    steps: list[Steps]
    wall_ns: list[Nanoseconds]
    at_ns: list[Nanoseconds]
    device_ns: list[Nanoseconds] | None = None
    stop: Stop

    def __post_init__(self) -> None:
        lengths = {len(self.steps), len(self.wall_ns), len(self.at_ns)}
        if self.device_ns is not None:
            lengths.add(len(self.device_ns))
        if len(lengths) != 1:
            raise ValueError("the lists of a series differ in length")

    def step_seconds(self, throttled: frozenset[int] = frozenset()) -> list[float]:
        """Seconds of one step by the wall clock, block by block, without the throttled blocks."""
        return self._per_step(self.wall_ns, throttled)

    def device_step_seconds(self, throttled: frozenset[int] = frozenset()) -> list[float] | None:
        """The same between device events, where the device has any."""
        return None if self.device_ns is None else self._per_step(self.device_ns, throttled)

    def _per_step(self, taken_ns: list[int], throttled: frozenset[int]) -> list[float]:
        return [
            taken / steps / 1e9
            for i, (taken, steps) in enumerate(zip(taken_ns, self.steps, strict=True))
            if i not in throttled
        ]


class HostMemory(msgspec.Struct, frozen=True, kw_only=True):
    """VmHWM, reset before: `prepare_peak` while building and preparing, `peak` while stepping."""

    peak: Bytes
    prepare_peak: Bytes
    start: Bytes
    method: str


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Three named figures while stepping: what the allocator gave out, what it held, what NVML saw."""

    allocated_peak: Bytes | None = None
    reserved_peak: Bytes | None = None
    prepare_allocated_peak: Bytes | None = None
    nvml: Bytes | None = None
    nvml_method: str | None = None


class MemoryTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Readings in the order of time: entry i was read at at_ns[i], by the clock of the series."""

    at_ns: list[Nanoseconds]
    host: list[Bytes]
    device: list[Bytes] | None = None

    def __post_init__(self) -> None:
        if len({len(self.at_ns), len(self.host), len(self.host if self.device is None else self.device)}) != 1:
            raise ValueError("the lists of a memory trace differ in length")


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """The machine during a round, seen from outside the measured process. What cannot be read is absent."""

    samples: Number = 0
    sm_clock_mhz: list[float] | None = None
    temperature_c: list[float] | None = None
    power_w: list[float] | None = None
    utilisation: list[float] | None = None
    energy_j_per_step: float | None = None
    throttle_reasons: list[str] = []
    other_gpu_processes: Number | None = None
    cpu_load: float | None = None
    cpu_pace: float | None = None


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """How far the rung is from the reference. `error` and `tolerance` are those of the worst tensor."""

    status: ParityStatus
    error: float | None = None
    tolerance: float | None = None
    worst: str | None = None
    compared: Number = 0
    # Tensors in which eager itself is so far off at this precision that they prove nothing.
    undecided: Number = 0
    reference: str = ""
    reason: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a round or a case has no result, and in which stage; `detail` is for a developer."""

    cause: Cause
    message: str
    stage: str = ""
    detail: str = ""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh process. A failed round keeps what it had measured before it failed."""

    index: Number
    started: str
    seconds: float
    isolation: str
    build_s: Seconds | None = None
    prepare_s: Seconds | None = None
    cache: Literal["cold", "warm", "none"] = "none"
    series: list[Series] = []
    # For each kind of series, the indices of its blocks that were taken under throttling.
    throttled: dict[SeriesKind, list[Number]] = {}
    host_memory: HostMemory | None = None
    device_memory: DeviceMemory | None = None
    telemetry: Telemetry | None = None
    # What one step does, counted (operators, copies, ...): the same in every round of one version.
    counts: dict[str, Bytes] = {}
    # How often a step called each operator and launched each kernel, from workers that can see them.
    operators: dict[str, Number] = {}
    kernels: dict[str, Number] = {}
    # Memory as it was seen from outside while sampling: does it grow from step to step?
    memory_trace: MemoryTrace | None = None
    parity: Parity | None = None
    flags: dict[str, str] = {}
    notes: list[str] = []
    failure: Failure | None = None

    def find(self, kind: SeriesKind) -> Series | None:
        return next((series for series in self.series if series.kind == kind), None)


class BatchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One batch that a search tried, with the round that measured it; running out of memory is an outcome here."""

    batch: Count
    round: Round


class BatchSearch(msgspec.Struct, frozen=True, kw_only=True):
    """How the batch of a case was found: every point of the curve, and what ended the search."""

    chosen: Count
    stop: SearchStop
    points: list[BatchPoint]
    rung: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The immutable result of a case."""

    version: str = VERSION
    id: Id
    run: Id
    created: Moment
    case: Case
    environment: Environment
    rounds: list[Round]
    parity: Parity
    failure: Failure | None = None
    # Where the batch was searched for: on the rung that the search ran on.
    search: BatchSearch | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def refused(self) -> bool:
        """The rung found out, on its way, that it cannot run this workload: an answer, not a failure."""
        return self.failure is not None and self.failure.cause == "unsupported"

    @property
    def failed(self) -> bool:
        return not (self.ok or self.refused)
