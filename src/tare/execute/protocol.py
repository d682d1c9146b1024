"""The worker protocol, version 1: one JSON job in, JSON lines out on a private descriptor.

Nothing is read from or written to stdout: libraries print there. docs/protocol.md describes it for other
languages; a worker may send any of the messages in any order and ends with `done` or `failed`.
"""

import os
from typing import Any, Literal

import msgspec

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.record import Bytes, DeviceMemory, Failure, HostMemory, MemoryTrace, Parity, Series
from tare.records.work import Work

PROTOCOL = 1
# The environment variable that names the descriptor for a worker started as a program of its own.
DESCRIPTOR = "TARE_FD"
# No honest message is longer; a worker that sends one is broken, and must not fill the parent's memory.
LONGEST_LINE = 256 * 2**20


class RoundJob(msgspec.Struct, frozen=True, kw_only=True, tag="round", tag_field="kind"):
    """Measure one case once. `reference` is the folder to compare with, if this round is to prove parity."""

    case: Case
    budget_s: float
    width: float
    reference: str | None = None
    cache: str | None = None
    # For a worker that is an executable: what was staged for it, and where to leave what parity compares.
    stage: str | None = None
    evidence: str | None = None
    protocol: int = PROTOCOL


class ReferenceJob(msgspec.Struct, frozen=True, kw_only=True, tag="reference", tag_field="kind"):
    """Compute what a case should give, in float64, into a folder. With `steps`, the curve of losses over that many
    batches of `data`."""

    case: Case
    folder: str
    data: str = ""
    steps: int = 0


class StageJob(msgspec.Struct, frozen=True, kw_only=True, tag="stage", tag_field="kind"):
    """Write what the executable of a native rung needs into a folder. With `steps`, that many batches of
    `data`."""

    case: Case
    folder: str
    data: str = ""
    steps: int = 0


class CheckJob(msgspec.Struct, frozen=True, kw_only=True, tag="check", tag_field="kind"):
    """Compare the evidence that an executable left with the reference."""

    case: Case
    evidence: str
    reference: str


class CurveJob(msgspec.Struct, frozen=True, kw_only=True, tag="curve", tag_field="kind"):
    """Train for some steps, each with a batch of its own, and leave the losses as evidence. Nothing is timed."""

    case: Case
    data: str
    steps: int
    evidence: str
    cache: str | None = None
    stage: str | None = None
    protocol: int = PROTOCOL


class FramesJob(msgspec.Struct, frozen=True, kw_only=True, tag="frames", tag_field="kind"):
    """Make one step under the preloaded counter of frames, which writes its report itself. Nothing is timed."""

    case: Case
    # Where a worker in Python leaves the frames that only Python knows.
    folder: str
    cache: str | None = None
    stage: str | None = None
    protocol: int = PROTOCOL


class ProbeJob(msgspec.Struct, frozen=True, kw_only=True, tag="probe", tag_field="kind"):
    """Say what this machine has."""


class ProfileJob(msgspec.Struct, frozen=True, kw_only=True, tag="profile", tag_field="kind"):
    """Record traces of a case: one for the figures; one with stacks, which slow the host, for names."""

    case: Case
    trace: str
    stacks: str | None = None
    cache: str | None = None


class CountJob(msgspec.Struct, frozen=True, kw_only=True, tag="count", tag_field="kind"):
    """Count the operations and bytes of one eager step of a case."""

    case: Case


class RegistryJob(msgspec.Struct, frozen=True, kw_only=True, tag="registry", tag_field="kind"):
    """Say what there is to be covered: torch's registries of functions and operators."""


class CoverJob(msgspec.Struct, frozen=True, kw_only=True, tag="cover", tag_field="kind"):
    """Run a step of a case under interception and say what it called. Nothing is timed."""

    case: Case


class PeakJob(msgspec.Struct, frozen=True, kw_only=True, tag="peak", tag_field="kind"):
    """Measure one ceiling of this machine (tare.measure.peaks)."""

    name: str
    device: str
    budget_s: float
    width: float


class InspectJob(msgspec.Struct, frozen=True, kw_only=True, tag="inspect", tag_field="kind"):
    """Build a case's model and say what it holds and what a step of it computes."""

    case: Case


Job = (
    RoundJob
    | ReferenceJob
    | StageJob
    | CheckJob
    | CurveJob
    | FramesJob
    | ProbeJob
    | ProfileJob
    | CountJob
    | PeakJob
    | RegistryJob
    | CoverJob
    | InspectJob
)


class Stage(msgspec.Struct, frozen=True, tag="stage", tag_field="kind"):
    """Where the worker is now: if it dies, it died there."""

    name: Literal[
        "start", "build", "prepare", "warm-up", "sample", "audit", "parity", "report", "profile", "count"
    ]


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared", tag_field="kind"):
    build_s: float
    prepare_s: float
    cache: Literal["cold", "warm", "none"]
    flags: dict[str, str] = {}
    notes: list[str] = []


class Measured(msgspec.Struct, frozen=True, tag="measured", tag_field="kind"):
    series: Series


class Weighed(msgspec.Struct, frozen=True, kw_only=True, tag="weighed", tag_field="kind"):
    host: HostMemory
    device: DeviceMemory | None = None
    cpu_pace: float | None = None
    # Memory at the end of each series, and what one step does, counted: from workers that know them.
    memory: MemoryTrace | None = None
    counts: dict[str, Bytes] = {}


class Checked(msgspec.Struct, frozen=True, tag="checked", tag_field="kind"):
    parity: Parity


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    remedy: str


class Probed(msgspec.Struct, frozen=True, kw_only=True, tag="probed", tag_field="kind"):
    """`absent` maps device type, then rung, to why it is not available; `gpus` maps devices to PCI addresses."""

    devices: list[str]
    absent: dict[str, dict[str, Absent]]
    missing_packages: dict[str, Absent]
    gpus: dict[str, str]
    environment: Environment


class Profiled(msgspec.Struct, frozen=True, tag="profiled", tag_field="kind"):
    """How many steps the traces hold."""

    steps: int


class Counted(msgspec.Struct, frozen=True, tag="counted", tag_field="kind"):
    work: Work


class Capacity(msgspec.Struct, frozen=True, kw_only=True, tag="capacity", tag_field="kind"):
    """How much one step of a peak does (FLOPs or bytes, or 1 where its time is the figure)."""

    amount: float


class Registered(msgspec.Struct, frozen=True, kw_only=True, tag="registered", tag_field="kind"):
    """The names that can be covered, each registry sorted; `torch` is the version they come from."""

    torch: str
    api: list[str]
    aten: list[str]
    core: list[str]


class Covered(msgspec.Struct, frozen=True, kw_only=True, tag="covered", tag_field="kind"):
    """What a step called: names of the registries, and under `others` what is in none of them."""

    api: list[str]
    aten: list[str]
    core: list[str]
    others: list[str]


class Uncounted(msgspec.Struct, frozen=True, kw_only=True):
    """An operator for which no formula counts FLOPs: how often it ran, and how many numbers it gave."""

    operator: str
    calls: int
    elements: int


class Flops(msgspec.Struct, frozen=True, kw_only=True):
    """FLOPs of one step, or why they could not be counted. `how` says whether it ran or only its shapes did."""

    total: int | None = None
    how: str = ""
    uncounted: list[Uncounted] = []
    reason: str = ""


class Inspected(msgspec.Struct, frozen=True, kw_only=True, tag="inspected", tag_field="kind"):
    parameters: int
    trainable: int
    parameter_bytes: int
    buffer_bytes: int
    inputs: list[str]
    infer: Flops | None = None
    train: Flops | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="kind"):
    failure: Failure


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="kind"):
    """The worker has said everything."""


Message = (
    Stage
    | Prepared
    | Measured
    | Weighed
    | Checked
    | Probed
    | Profiled
    | Counted
    | Capacity
    | Registered
    | Covered
    | Inspected
    | Failed
    | Done
)

_messages = msgspec.json.Decoder(Message)
_jobs = msgspec.json.Decoder(Job)


def read_job(text: bytes | str) -> Job:
    job: Job = _jobs.decode(text)
    return job


def read_message(line: bytes) -> Message:
    message: Message = _messages.decode(line)
    return message


class Channel:
    """The worker's end: a line a message, written whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Any) -> None:
        line = memoryview(msgspec.json.encode(message) + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]
