"""The worker protocol, version 1: one JSON job in, JSON lines out on a private descriptor.

Nothing goes through stdout, because libraries print there. docs/protocol.md describes the protocol for other
languages. A worker may send its messages in any order, and ends with `done` or `failed`.
"""

import os
from collections.abc import Callable
from typing import Literal

import msgspec

from tare.records.environment import Environment
from tare.records.record import Bytes, DeviceMemory, Failure, HostMemory, MemoryTrace, Net, Number, Parity, Series
from tare.records.work import Work

# The environment variable that names the descriptor for a worker started as a program of its own.
DESCRIPTOR = "TARE_FD"
# A worker that sends a longer line is broken, and must not fill the memory of the parent.
LONGEST_LINE = 256 * 2**20


class Stage(msgspec.Struct, frozen=True, tag="stage", tag_field="kind"):
    """What the worker does now: if it dies, it died in this stage."""

    name: Literal[
        "start", "build", "prepare", "gate", "warm-up", "sample", "audit", "parity", "report", "profile", "count"
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
    # Memory at the end of each series and counts of one step, from workers that know them.
    memory: MemoryTrace | None = None
    counts: dict[str, Bytes] = {}
    # How often a step called each operator.
    operators: dict[str, Number] = {}


class StepProfile(msgspec.Struct, frozen=True, kw_only=True, tag="step-profile", tag_field="kind"):
    """From a few profiled steps after the timing: net, and how often a step launches each kernel."""

    net: Net
    kernels: dict[str, Number] = {}


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
    """The traces are written. `work` is that of a step, if it was to be counted and could be."""

    work: Work | None = None


class Counted(msgspec.Struct, frozen=True, tag="counted", tag_field="kind"):
    work: Work


class MeasuredPeak(msgspec.Struct, frozen=True, tag="measured-peak", tag_field="kind"):
    """The best block of a round, in the unit of the peak: FLOP/s, B/s or seconds."""

    value: float


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
    """The worker has sent everything."""


Message = (
    Stage
    | Prepared
    | Measured
    | Weighed
    | StepProfile
    | Checked
    | Probed
    | Profiled
    | Counted
    | MeasuredPeak
    | Registered
    | Covered
    | Inspected
    | Failed
    | Done
)

Send = Callable[[Message], None]

_messages = msgspec.json.Decoder(Message)


def read_message(line: bytes) -> Message:
    message: Message = _messages.decode(line)
    return message


class Channel:
    """The end of the worker: one message per line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Message) -> None:
        line = memoryview(msgspec.json.encode(message) + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]
