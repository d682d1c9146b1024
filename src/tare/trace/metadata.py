"""What a trace document says beside its events: what tare recorded (tare.worker.profiling), and the device."""

from typing import Annotated

import msgspec

from tare.records.work import Work
from tare.system.text import printable
from tare.trace.tables import Trace
from tare.trace.windows import main_device


class RecordingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The case of a trace that tare recorded. `work` is what one step computes, where it was counted. `shapes`
    says whether the shapes of operators were recorded."""

    case: str
    workload: str
    mode: str
    precision: str
    rung: str
    work: Work | None = None
    shapes: bool = True


class BatchPadding(msgspec.Struct, frozen=True, kw_only=True):
    """What part of a batch of so many samples of one length is padding, as the recording program states it."""

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    batch: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    length: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


def batch_padding(trace: Trace) -> BatchPadding | None:
    """None where nothing is stated, or the entry is malformed."""
    try:
        return msgspec.convert(trace.metadata.get("tare_padding"), BatchPadding)
    except msgspec.ValidationError:
        return None


class LiveRecording(msgspec.Struct, frozen=True, kw_only=True):
    """How `tare explain --live` recorded a script (tare.measure.live_recorder): what ends its steps, how many were
    seen before, how many were timed without the profiler, and what a step took with it."""

    steps_end: str
    warmup: int
    steady: bool
    timed: int
    steps: int
    profiled_ns: int


def live_recording(trace: Trace) -> LiveRecording | None:
    """None for a trace that was not recorded live, or whose entry is malformed."""
    try:
        return msgspec.convert(trace.metadata.get("tare_live"), LiveRecording)
    except msgspec.ValidationError:
        return None


def recording_info(trace: Trace) -> RecordingInfo | None:
    """None for a trace that tare did not record, or whose entry is malformed."""
    try:
        return msgspec.convert(trace.metadata.get("tare_profiled"), RecordingInfo)
    except msgspec.ValidationError:
        return None


def metadata_time(trace: Trace, key: str, name: str, below: float = 1e18) -> float | None:
    """A time in nanoseconds from the metadata; None if it is absent, no number or not plausible."""
    entry = trace.metadata.get(key)
    time = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(time, int | float) or isinstance(time, bool):
        return None
    return time if 1 <= time < below else None


def recorded_gross(trace: Trace) -> int | None:
    """The gross (ns) that was measured for the same program and written into the trace."""
    gross = metadata_time(trace, "tare_recorded", "gross_ns")
    return None if gross is None else round(gross)


def device_name(trace: Trace) -> str:
    """The name of the device that the trace is explained for; empty where there is no device or no name."""
    devices, main = trace.metadata.get("deviceProperties"), main_device(trace)
    if main is None or not isinstance(devices, list):
        return ""
    for device in devices:
        if isinstance(device, dict) and device.get("id") == main:
            return printable(str(device.get("name", "")), 80)
    return ""


# TF32 came with compute capability 8.0.
FIRST_WITH_TF32 = 8


def has_tf32(trace: Trace) -> bool:
    """Whether the trace says that its device has TF32. AMD's have a compute capability of their own."""
    properties = trace.metadata.get("deviceProperties")
    device = properties[0] if isinstance(properties, list) and properties else None
    if not isinstance(device, dict) or "AMD" in str(device.get("name", "")):
        return False
    major = device.get("computeMajor")
    return isinstance(major, int) and major >= FIRST_WITH_TF32
