"""The events of a Kineto trace as torch.profiler writes them, as far as tare reads them.

An event is decoded in one go, by its phase: of what is neither a span nor an instant nothing is kept. Where a
piece of a trace has arguments of other types, its events are decoded loosely, and the arguments of those that
matter one by one: what is odd in an event that nobody needs harms nothing.
"""

from typing import Union

import msgspec

Tag = int | float | str | None
# Not None: msgspec takes no union with Raw.
NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, frozen=True, gc=False):
    """Of any span, in the order in which the profiler writes them: msgspec looks for a key behind the last."""

    # Operators.
    sequence: int = msgspec.field(name="Sequence number", default=-1)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=-1)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=NOTHING)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    # Traces of torch 1.x.
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)
    # Calls, kernels, copies, memsets.
    device: int = 0
    stream: int | str = -1
    correlation: int = -1
    bytes: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared: int = msgspec.field(name="shared memory", default=-1)
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING


class MemoryArgs(msgspec.Struct, frozen=True, gc=False):
    """Of an allocation or a release, and what was allocated after it."""

    reserved: int = msgspec.field(name="Total Reserved", default=-1)
    allocated: int = msgspec.field(name="Total Allocated", default=-1)
    bytes: int = msgspec.field(name="Bytes", default=0)
    device_number: int = msgspec.field(name="Device Id", default=-1)
    device_type: int = msgspec.field(name="Device Type", default=0)
    address: int | str = msgspec.field(name="Addr", default=0)


NO_ARGS, NO_MEMORY_ARGS = Args(), MemoryArgs()


class Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """Something that took its time."""

    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: Args = NO_ARGS


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    args: MemoryArgs = NO_MEMORY_ARGS


class Other(msgspec.Struct, gc=False, tag_field="ph", tag=""):
    """Arrows, names of processes, counters: of no interest here."""


class Begin(Other, gc=False, tag_field="ph", tag="B"):
    """The beginning of a span whose end is an event of its own: torch writes none, and none is read."""


class LooseEvent(msgspec.Struct, gc=False):
    """Any event, with its arguments as they are written."""

    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


Event = Span | Instant | Other
# A type for every other phase of the format, because msgspec tells types apart by one tag each.
_PHASES = "EIMCbnesftSTpFPNODVvRc()"
_OTHERS = [msgspec.defstruct(f"Phase{n}", [], bases=(Other,), tag=phase) for n, phase in enumerate(_PHASES)]
_ANY = list[Union[Span, Instant, Begin, Other, *_OTHERS]]  # type: ignore[valid-type]
_EVENTS: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(_ANY)
_LOOSE = msgspec.json.Decoder(list[LooseEvent])
# Not strict: some writers quote their numbers.
_ARGS = msgspec.json.Decoder(Args | None, strict=False)
_MEMORY_ARGS = msgspec.json.Decoder(MemoryArgs | None, strict=False)

OPERATORS = ("cpu_op", "Operator", "operator")
CALLS = ("cuda_runtime", "Runtime", "hip_runtime", "cuda_driver", "hip_driver")
KERNELS, COPIES, MEMSETS = ("kernel", "Kernel"), ("gpu_memcpy", "Memcpy"), ("gpu_memset", "Memset")
# Categories whose arguments are read. Old traces (torch 1.8 to 1.10) capitalise.
WITH_ARGS = {*OPERATORS, *CALLS, *KERNELS, *COPIES, *MEMSETS}
FRAMES, ANNOTATIONS, DEVICE_ANNOTATIONS = "python_function", "user_annotation", "gpu_user_annotation"
MEMORY = "[memory]"


def decode(text: bytes | memoryview) -> list[Event]:
    """The events of a JSON list; msgspec.DecodeError where it is none, or an event that matters cannot be read."""
    try:
        return _EVENTS.decode(text)
    except msgspec.ValidationError:
        return [_tighten(event) for event in _LOOSE.decode(text)]


def _tighten(event: LooseEvent) -> Event:
    if event.ph == "X":
        args = _ARGS.decode(event.args) if event.cat in WITH_ARGS else None
        return Span(event.cat, event.name, event.pid, event.tid, event.ts, event.dur, args or NO_ARGS)
    if event.ph == "i" and event.name == MEMORY:
        memory = _MEMORY_ARGS.decode(event.args) or NO_MEMORY_ARGS
        return Instant(event.name, event.pid, event.tid, event.ts, memory)
    return Begin() if event.ph == "B" else Other()
