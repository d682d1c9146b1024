"""The worker protocol, version 1: one JSON job in, JSON lines out on a private descriptor.

Nothing goes through stdout, because libraries print there. docs/protocol.md describes the protocol for other
languages. A worker may send its messages in any order, and ends with `done` or `failed`.
"""

import os
import re
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Literal

import msgspec

from tare.cases.source import ModelDescription
from tare.records.environment import Environment
from tare.records.record import Bytes, DeviceMemory, Failure, HostMemory, MemoryTrace, Net, Number, Parity, Series
from tare.records.work import Work

# The environment variable that names the descriptor for a worker started as a program of its own.
DESCRIPTOR = "TARE_FD"
# A worker that sends a longer line is broken, and must not fill the memory of the parent.
LONGEST_LINE = 16 * 2**20


def _kind(name: str) -> str:
    """`step-profile` of StepProfile."""
    return re.sub(r"\B(?=[A-Z])", "-", name).lower()


class Message(msgspec.Struct, frozen=True, tag_field="kind", tag=_kind):
    """A kind of message is a class here."""


class Stage(Message, frozen=True):
    """What the worker does now: if it dies, it died in this stage."""

    name: Literal["start", "build", "prepare", "gate", "warm-up", "sample", "audit", "parity", "report", "profile"]


class Prepared(Message, frozen=True, kw_only=True):
    build_s: float
    prepare_s: float
    cache: Literal["cold", "warm", "none"]
    flags: dict[str, str] = {}
    notes: list[str] = []


class Measured(Message, frozen=True):
    series: Series


class Weighed(Message, frozen=True, kw_only=True):
    host: HostMemory
    device: DeviceMemory | None = None
    cpu_pace: float | None = None
    # Memory at the end of each series and counts of one step, from workers that know them.
    memory: MemoryTrace | None = None
    counts: dict[str, Bytes] = {}
    # How often a step called each operator.
    operators: dict[str, Number] = {}
    # Flags that the steps have changed since `Prepared`, and remarks on the steps.
    flags: dict[str, str] = {}
    notes: list[str] = []


class StepProfile(Message, frozen=True, kw_only=True):
    """From a few profiled steps after the timing: net, and how often a step launches each kernel."""

    net: Net
    kernels: dict[str, Number] = {}


class ImportedPackages(Message, frozen=True):
    """The versions of the installed packages that the worker has imported, the model's among them."""

    versions: dict[str, str]


class Checked(Message, frozen=True):
    parity: Parity


class Missing(msgspec.Struct, frozen=True):
    """Why a rung or a workload is not available here, and what would make it available."""

    reason: str
    remedy: str


class Probed(Message, frozen=True, kw_only=True):
    """`absent` maps device type, then rung, to why it is not available; `gpus` maps devices to PCI addresses."""

    devices: list[str]
    absent: dict[str, dict[str, Missing]]
    missing_packages: dict[str, Missing]
    gpus: dict[str, str]
    environment: Environment


class Profiled(Message, frozen=True):
    """The traces are written. `work` is that of a step, if it was to be counted and could be."""

    work: Work | None = None


class MeasuredPeak(Message, frozen=True):
    """The best block of a round, in the unit of the peak: FLOP/s, B/s or seconds."""

    value: float


class Registered(Message, frozen=True, kw_only=True):
    """The names that can be covered, each registry sorted; `torch` is the version they come from."""

    torch: str
    api: list[str]
    aten: list[str]
    core: list[str]


class Covered(Message, frozen=True, kw_only=True):
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


class Inspected(Message, frozen=True, kw_only=True):
    parameters: int
    trainable: int
    parameter_bytes: int
    buffer_bytes: int
    inputs: list[str]
    infer: Flops | None = None
    train: Flops | None = None


class Shaped(Message, frozen=True, kw_only=True):
    """The shapes of a case's example batch, and the learning rate and momentum of its workload."""

    args: list[list[int]]
    target: list[int]
    learning_rate: float
    momentum: float


class TrainedEpoch(Message, frozen=True, kw_only=True):
    """An epoch is over, and its checkpoint written. `loss` is the mean over its steps, None where it is not
    finite."""

    epoch: int
    loss: float | None


class EvaluatedWeights(Message, frozen=True, kw_only=True):
    """Shares of images whose class was recognised, and the mean loss; None where it is not finite."""

    train_accuracy: float
    test_loss: float | None
    test_accuracy: float


class Described(Message, frozen=True):
    """The answer to a DescribeJob."""

    description: ModelDescription


class Failed(Message, frozen=True):
    failure: Failure


class Done(Message, frozen=True):
    """The worker has sent everything."""


Send = Callable[[Message], None]

_messages = msgspec.json.Decoder(reduce(or_, Message.__subclasses__()))


def read_message(line: bytes | bytearray) -> Message:
    """msgspec.DecodeError for whatever is no message."""
    try:
        message: Message = _messages.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    return message


class Channel:
    """The end of the worker: one message per line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Message) -> None:
        line = memoryview(msgspec.json.encode(message) + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]
