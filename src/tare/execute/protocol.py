"""The worker protocol, version 1: one JSON job in, JSON lines out on a private descriptor.

Nothing is read from or written to stdout: libraries print there. docs/protocol.md describes it for other
languages; a worker may send any of the messages in any order and ends with `done` or `failed`.
"""

import os
from typing import Any, Literal

import msgspec

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.record import DeviceMemory, Failure, HostMemory, Parity, Series

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


Job = RoundJob | ReferenceJob | StageJob | CheckJob | CurveJob | FramesJob | ProbeJob


class Stage(msgspec.Struct, frozen=True, tag="stage", tag_field="kind"):
    """Where the worker is now: if it dies, it died there."""

    name: Literal["start", "build", "prepare", "warm-up", "sample", "audit", "parity", "report"]


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


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="kind"):
    failure: Failure


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="kind"):
    """The worker has said everything."""


Message = Stage | Prepared | Measured | Weighed | Checked | Probed | Failed | Done

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
