"""The jobs of a worker: it gets one as a JSON document (docs/protocol.md)."""

from functools import reduce
from operator import or_

import msgspec

from tare.cases.case import Case
from tare.cases.source import ModelSource

PROTOCOL = 1


class BatchSource(msgspec.Struct, frozen=True, kw_only=True):
    """Batches of prepared data (docs/train.md): the folder of the data; files with the indices of the training
    images in their order, raw int64, one for each epoch; and the shapes of a batch's input and target."""

    folder: str
    orders: tuple[str, ...]
    input: tuple[int, ...]
    target: tuple[int, ...]


class Job(msgspec.Struct, frozen=True, tag_field="kind", tag=lambda name: name.removesuffix("Job").lower()):
    """A kind of job is a class here, and a function of the worker (tare.worker.process.HANDLERS)."""


class RoundJob(Job, frozen=True, kw_only=True):
    """Measure one case once. `reference` is the folder to compare with, if this round checks parity. Without
    `dropout`, the dropout of the model is turned off after it is built; so in other jobs."""

    case: Case
    budget_s: float
    width: float
    reference: str | None = None
    cache: str | None = None
    # For an executable: the files staged for it, and where to write what parity compares.
    stage: str | None = None
    evidence: str | None = None
    # Whether to profile a few steps at the end, for net and the names of the kernels.
    profile: bool = False
    # When other cases are prepared at the same time: the pipe from which the worker reads a byte before it
    # samples, and its share of the cores until then.
    gate: str | None = None
    cores: int | None = None
    dropout: bool = True
    protocol: int = PROTOCOL


class CommandJob(RoundJob, frozen=True, kw_only=True):
    """Measure one command once: its processes from start to end. It succeeds with one of the `allowed` exit
    statuses."""

    arguments: tuple[str, ...]
    allowed: tuple[int, ...] = (0,)


class ReferenceJob(Job, frozen=True, kw_only=True):
    """Compute the expected result of a case into a folder, in float64 or in `storage`. With `batches`, compute the
    losses over them. With `widen`, make the errors of eager in the reference wider. With `cores`, its share of
    them while others work in parallel, a float64 reference that does not fit into the device's memory fails
    instead of falling back to float32: others hold memory of the device."""

    case: Case
    folder: str
    batches: BatchSource | None = None
    widen: bool = False
    cores: int | None = None
    storage: str = "float64"


class StageJob(Job, frozen=True, kw_only=True):
    """Write the files that the executable of a native rung needs into a folder. A `learning_rate` replaces that of
    the workload; so in other jobs."""

    case: Case
    folder: str
    learning_rate: float | None = None
    cores: int | None = None
    dropout: bool = True


class CheckJob(Job, frozen=True, kw_only=True):
    """Compare the evidence that an executable wrote with the reference."""

    case: Case
    evidence: str
    reference: str
    # The shortest time of a step that the executable measured.
    step_s: float


class CurveJob(Job, frozen=True, kw_only=True):
    """Train for some steps, each on its own batch, and write the losses as evidence. Nothing is timed."""

    case: Case
    batches: BatchSource
    evidence: str
    cache: str | None = None
    stage: str | None = None
    dropout: bool = True
    protocol: int = PROTOCOL


class TrainJob(Job, frozen=True, kw_only=True):
    """Train for one epoch after the other, the first of which has the number `first`, from the weights in the
    folder `checkpoint`. After epoch N the worker writes a checkpoint into the folder `save`/N and sends
    `trained-epoch`. A worker in Python also evaluates (`judged`: on that many of the training images). Nothing is
    timed."""

    case: Case
    batches: BatchSource
    first: int
    checkpoint: str
    save: str
    judged: int
    learning_rate: float | None = None
    cache: str | None = None
    stage: str | None = None
    protocol: int = PROTOCOL


class EvaluateJob(Job, frozen=True, kw_only=True):
    """Evaluate the weights in a checkpoint with eager, on the test images and on `judged` training images."""

    case: Case
    batches: BatchSource
    checkpoint: str
    judged: int


class InitialWeightsJob(Job, frozen=True, kw_only=True):
    """Write the initial weights of a run (a seed) as a checkpoint."""

    case: Case
    run: int
    folder: str


class ShapesJob(Job, frozen=True, kw_only=True):
    """Say which shapes the example batch of a case has."""

    case: Case


class FramesJob(Job, frozen=True, kw_only=True):
    """Make one step under the preloaded frame counter, which writes its own report. Nothing is timed."""

    case: Case
    # Where a Python worker writes the frames that only Python knows.
    folder: str
    cache: str | None = None
    stage: str | None = None
    protocol: int = PROTOCOL


class ProbeJob(Job, frozen=True, kw_only=True):
    """Report what this machine has."""


class ProfileJob(Job, frozen=True, kw_only=True):
    """Record traces of a case: one for the figures; one with stacks, which slow the host, for names. `count` asks
    for the work of a step as well, of a program that is eager, with or without traces. `gross_ns` is what a step
    took without a profiler: the traces say so, and need nothing else to be explained anywhere."""

    case: Case
    trace: str | None = None
    stacks: str | None = None
    cache: str | None = None
    count: bool = False
    gross_ns: int | None = None


class RegistryJob(Job, frozen=True, kw_only=True):
    """Say what there is to be covered: torch's registries of functions and operators."""


class CoverJob(Job, frozen=True, kw_only=True):
    """Run a step of a case under interception and say what it called. Nothing is timed."""

    case: Case


class PeakJob(Job, frozen=True, kw_only=True):
    """Measure one peak of this machine (tare.measure.peaks); without `threads`, with torch's default number."""

    name: str
    device: str
    threads: int | None = None
    budget_s: float
    width: float


class InspectJob(Job, frozen=True, kw_only=True):
    """Build a case's model and say what it holds and what a step of it computes."""

    case: Case


class DescribeJob(Job, frozen=True, kw_only=True):
    """Import a user's model and say what the parent must know of it."""

    source: ModelSource


_jobs = msgspec.json.Decoder(reduce(or_, (*Job.__subclasses__(), *RoundJob.__subclasses__())))


def reference_case(case: Case) -> Case:
    """The case whose result all rungs, feeds and layouts of a workload must share."""
    return msgspec.structs.replace(case, rung="eager", feed="device", layout="contiguous", threads=None)


def read_job(text: bytes | str) -> Job:
    job: Job = _jobs.decode(text)
    return job
