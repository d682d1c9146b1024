"""The record of a case: what was measured, where, in which rounds, with every raw sample."""

from typing import Annotated, Literal

import msgspec

from tare.cases.case import Case, Count
from tare.records.environment import Environment, Facts, cut_packages, drop_secrets
from tare.records.tags import Tags, hide_secrets
from tare.system.redaction import redact
from tare.system.repository import Repository

VERSION = "1"
# Characters of a failure's message and of its detail that are kept. Secrets are looked for in more, because a part
# of one that a cut leaves would not be recognised.
LONGEST_MESSAGE, LONGEST_DETAIL, MARGIN = 500, 8_000, 4_000

Cause = Literal[
    "exception",
    "exit-status",
    "signal",
    "host-oom",
    "device-oom",
    "timeout",
    "no-result",
    "unsupported",
    "not-installed",
    "nan",
    "unsynchronised",
    "memoised",
    "no-work",
    "precision-changed",
    "inconsistent",
]
SeriesKind = Literal["warmup", "pipelined", "latency"]
Stop = Literal["width", "budget", "steady", "unsteady"]
# A search for a batch size ends when throughput stops rising, memory is full, a step takes too long, a batch fails
# for another reason than memory, or the largest batch has been tried.
SearchStop = Literal["throughput", "memory", "time", "failure", "largest"]
ParityStatus = Literal["same", "different", "nan", "unchecked"]

# The reason of an unchecked parity where the user asked for no check.
NOT_ASKED_FOR = "not asked for"
# The beginning of a reason that the author of a model has given.
DECLARED_OFF = "declared off"

# msgspec decodes larger integers than it encodes.
LARGEST = 2**63 - 1


def unit(unit: str, description: str, ge: int | None = None, le: int | None = None) -> msgspec.Meta:
    """What the published schema says of a number (`tare export --schema`), and its bounds."""
    return msgspec.Meta(ge=ge, le=le, description=description, extra_json_schema={"unit": unit})


Nanoseconds = Annotated[int, unit("ns", "nanoseconds of a clock that starts anywhere", 0, LARGEST)]
Bytes = Annotated[int, unit("byte", "bytes of memory", 0, LARGEST)]
Counted = Annotated[
    int, unit("count", "how many there are in one step; bytes and microseconds where the name says so", 0, LARGEST)
]
Steps = Annotated[int, unit("count", "a number of steps", 1, LARGEST)]
Number = Annotated[int, unit("count", "a number of things, or an index that starts at 0", 0, 2**31 - 1)]
Seconds = Annotated[float, unit("s", "seconds", 0)]
Share = Annotated[float, unit("share", "a part of one", 0, 1)]
LONGEST_NOTE, MOST_NOTES = 10_000, 1_000
Notes = Annotated[list[Annotated[str, msgspec.Meta(max_length=LONGEST_NOTE)]], msgspec.Meta(max_length=MOST_NOTES)]
NodeName = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z_.:-]*\Z", max_length=120)]
# An id becomes part of a file name.
Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z_][0-9A-Za-z_.+-]*\Z", max_length=64)]
Moment = Annotated[
    str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d[0-9:.]*(Z|[+-]\d\d:\d\d)?\Z", max_length=40)
]


def _hide_secrets(document: msgspec.Struct, field: str) -> None:
    """Hides the secrets in a short text that may quote an exception."""
    text = getattr(document, field)
    if text:
        msgspec.structs.force_setattr(document, field, redact(text[: LONGEST_MESSAGE + MARGIN])[:LONGEST_MESSAGE])


def _require_equal_lengths(*lists: list[int] | None) -> None:
    if len({len(values) for values in lists if values is not None}) != 1:
        raise ValueError("lists that belong together differ in length")


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Timed blocks of one kind. Block i ran steps[i] steps, took wall_ns[i] and began at at_ns[i]."""

    kind: SeriesKind
    steps: list[Steps]
    wall_ns: list[Nanoseconds]
    at_ns: list[Nanoseconds]
    device_ns: list[Nanoseconds] | None = None
    stop: Stop
    # How many blocks there were, where a store has dropped most of them because of their age.
    blocks: Number | None = None

    def __post_init__(self) -> None:
        _require_equal_lengths(self.steps, self.wall_ns, self.at_ns, self.device_ns)

    def step_seconds(self) -> list[float]:
        """Seconds per step by the wall clock, one value a block."""
        return [wall / steps / 1e9 for wall, steps in zip(self.wall_ns, self.steps, strict=True)]

    def device_step_seconds(self) -> list[float]:
        """Seconds per step between device events; empty where the device has no events."""
        return [taken / steps / 1e9 for taken, steps in zip(self.device_ns or (), self.steps, strict=False)]


class HostMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Peak resident memory (VmHWM) after a reset: `prepare_peak` until the first step has run, `peak` after it."""

    peak: Bytes
    prepare_peak: Bytes
    start: Bytes
    method: str


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks while stepping: bytes the allocator handed out, bytes it reserved, bytes NVML attributes to it."""

    allocated_peak: Bytes | None = None
    reserved_peak: Bytes | None = None
    prepare_allocated_peak: Bytes | None = None
    nvml: Bytes | None = None
    nvml_method: str | None = None


class MemoryTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Readings over time; reading i was taken at at_ns[i], on the clock of the series."""

    at_ns: list[Nanoseconds]
    host: list[Bytes]
    device: list[Bytes] | None = None

    def __post_init__(self) -> None:
        _require_equal_lengths(self.at_ns, self.host, self.device)


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """The machine during a round, read by the parent process. What this machine does not report is absent.

    The CPU shares are of all the machine's cores: `cpu_load` over the whole round; `cpu_other_load` (processes
    that do not belong to this run) and `cpu_steal` (taken by the hypervisor) while the steps were sampled.
    """

    samples: Number = 0
    sm_clock_mhz: list[Annotated[float, unit("MHz", "lowest, median and highest clock of the GPU")]] | None = None
    temperature_c: list[Annotated[float, unit("°C", "the same of its temperature")]] | None = None
    power_w: list[Annotated[float, unit("W", "the same of its power")]] | None = None
    utilisation: list[Annotated[float, unit("share", "the same of its utilisation")]] | None = None
    energy_j_per_step: Annotated[float | None, unit("J", "energy of one step")] = None
    throttle_reasons: list[str] = []
    other_gpu_processes: Number | None = None
    cpu_load: Annotated[float | None, unit("share", "CPU time that was used, of all cores")] = None
    cpu_other_load: Annotated[float | None, unit("share", "the same by processes of others")] = None
    cpu_steal: Annotated[float | None, unit("share", "the same by the hypervisor")] = None
    cpu_pace: Annotated[
        float | None,
        unit("ratio", "speed of a fixed loop after sampling over its speed before: below 1 the CPU became slower"),
    ] = None


# Results of the parity check with which the times and traces of a rung may be compared with those of others.
COMPARABLE = ("same", "unchecked")


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rung is from the reference. `error` and `tolerance` belong to the worst tensor."""

    status: ParityStatus
    error: Annotated[float | None, unit("share", "distance to the reference over the reference's norm")] = None
    tolerance: Annotated[float | None, unit("share", "the largest error that counts as the same")] = None
    worst: str | None = None
    compared: Number = 0
    # Tensors in which eager itself is so inexact at this precision that they prove nothing.
    undecided: Number = 0
    reference: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        _hide_secrets(self, "reason")

    @property
    def missing(self) -> str:
        """Why a check that was asked for has no result. Such a rung is not compared with others."""
        is_meant = self.reason == NOT_ASKED_FOR or self.reason.startswith(DECLARED_OFF)
        return self.reason if self.status == "unchecked" and not is_meant else ""


class Net(msgspec.Struct, frozen=True, kw_only=True):
    """How long the device computed, from a few profiled steps after the timing.

    A profiler does not slow a GPU's kernels, so `busy_s` is the union of their intervals in one step. It does slow
    a CPU's operators: there only `share` is kept, of the profiled steps' time. Without either, `reason` says why.
    """

    steps: Number = 0
    busy_s: Seconds | None = None
    share: Share | None = None
    # True where `busy_s` includes gaps between kernels, so that the device computed for at most that long.
    upper_bound: bool = False
    method: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        _hide_secrets(self, "reason")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a round or a case has no result, and in which stage. `exception` names the class of the exception that a
    Python worker raised; `detail` is for a developer. Both texts come from libraries and models, and may repeat
    secrets, which are hidden."""

    cause: Cause
    message: str
    stage: str = ""
    exception: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        _hide_secrets(self, "message")
        detail = redact(self.detail[-LONGEST_DETAIL - MARGIN :])[-LONGEST_DETAIL:]
        msgspec.structs.force_setattr(self, "detail", detail)


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh process that measured the case once. A failed round keeps what it measured before it failed."""

    index: Number
    started: str
    seconds: Annotated[float, unit("s", "the whole round, from the start of its process to its end")]
    isolation: str
    # The node of a fleet that measured it; empty for the machine that tare ran on.
    node: NodeName = ""
    build_s: Seconds | None = None
    prepare_s: Seconds | None = None
    cache: Literal["cold", "warm", "none"] = "none"
    series: list[Series] = []
    # For each kind of series, the indices of the blocks that were taken under throttling.
    throttled: dict[SeriesKind, list[Number]] = {}
    host_memory: HostMemory | None = None
    device_memory: DeviceMemory | None = None
    telemetry: Telemetry | None = None
    # What one step does (operators, bytes copied, ...), counted rather than timed.
    counts: dict[str, Counted] = {}
    # How often one step called each operator and launched each kernel, where the worker can tell.
    operators: dict[str, Number] = {}
    kernels: dict[str, Number] = {}
    # From the first round of a case only.
    net: Net | None = None
    # Memory while sampling, to see whether it grows from step to step.
    memory_trace: MemoryTrace | None = None
    parity: Parity | None = None
    # Versions of the installed packages that the process had imported. From the first round of a case only.
    packages: Facts = {}
    flags: Facts = {}
    notes: Notes = []
    failure: Failure | None = None

    def __post_init__(self) -> None:
        drop_secrets(self.flags)
        cut_packages(self.packages)
        # A note that is longer could not be read again.
        self.notes[:] = (redact(note[:LONGEST_NOTE])[:LONGEST_NOTE] for note in self.notes[:MOST_NOTES])

    def find(self, kind: SeriesKind) -> Series | None:
        return next((series for series in self.series if series.kind == kind), None)


class BatchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One batch size that a search tried, with the round that measured it (or that ran out of memory)."""

    batch: Count
    round: Round


class BatchSearch(msgspec.Struct, frozen=True, kw_only=True):
    """How the batch size of a case was found: every batch tried on `rung`, and what ended the search."""

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
    # Tokens of one step, where the workload says what a token is.
    tokens_per_step: Count | None = None
    # Present on the record of the rung that the batch size was searched on.
    search: BatchSearch | None = None
    # The user's project: the repository that holds the model, or else the folder in which tare ran.
    project: Repository | None = None
    tags: Tags = {}

    def __post_init__(self) -> None:
        hide_secrets(self.tags)

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def refused(self) -> bool:
        """The rung found, while preparing, that it does not support this workload. That is not a failure."""
        return self.failure is not None and self.failure.cause == "unsupported"

    @property
    def failed(self) -> bool:
        return not (self.ok or self.refused)
