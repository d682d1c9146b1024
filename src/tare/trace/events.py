"""The events of a Kineto trace (torch.profiler), as far as tare reads them.

msgspec decodes an event by its phase and keeps only complete events (X) and instants (i). Where the arguments of a
chunk have unexpected types, its events are decoded again with raw arguments, and only arguments that matter are
checked: a malformed argument of an event that is not used is ignored.
"""

from typing import Union

import msgspec

Tag = int | float | str | None
# msgspec allows no union of None with Raw.
ABSENT = msgspec.Raw(b"")


class EventArgs(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a span, in the order of the profiler: msgspec expects the next key after the last."""

    # Operators. "Input dims" is the key of torch 1.x.
    sequence: int = msgspec.field(name="Sequence number", default=-1)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=-1)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=ABSENT)
    types: msgspec.Raw = msgspec.field(name="Input type", default=ABSENT)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=ABSENT)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=ABSENT)
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=ABSENT)
    # Runtime calls, kernels, copies, memsets.
    device: int = 0
    stream: int | str = -1
    correlation: int = -1
    bytes: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared: int = msgspec.field(name="shared memory", default=-1)
    grid: msgspec.Raw = ABSENT
    block: msgspec.Raw = ABSENT


class MemoryArgs(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an allocation or a release; the totals are those after it."""

    reserved: int = msgspec.field(name="Total Reserved", default=-1)
    allocated: int = msgspec.field(name="Total Allocated", default=-1)
    bytes: int = msgspec.field(name="Bytes", default=0)
    device_number: int = msgspec.field(name="Device Id", default=-1)
    device_type: int = msgspec.field(name="Device Type", default=0)
    address: int | str = msgspec.field(name="Addr", default=0)


NO_ARGS, NO_MEMORY_ARGS = EventArgs(), MemoryArgs()


class Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: EventArgs = NO_ARGS


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    args: MemoryArgs = NO_MEMORY_ARGS


class OtherEvent(msgspec.Struct, gc=False, tag_field="ph", tag=""):
    """Flow arrows, process names, counters."""


class Begin(OtherEvent, gc=False, tag_field="ph", tag="B"):
    """The beginning of a span that an E event ends. torch writes none; they are counted, not read."""


class LooseEvent(msgspec.Struct, gc=False):
    """Any event, with raw arguments."""

    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


Event = Span | Instant | OtherEvent
# msgspec selects a type by its one tag, so every other phase of the format needs a type.
_PHASES = "EIMCbnesftSTpFPNODVvRc()"
_OTHERS = [msgspec.defstruct(f"Phase{n}", [], bases=(OtherEvent,), tag=phase) for n, phase in enumerate(_PHASES)]
_ANY = list[Union[Span, Instant, Begin, OtherEvent, *_OTHERS]]  # type: ignore[valid-type]
_EVENTS: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(_ANY)
_LOOSE = msgspec.json.Decoder(list[LooseEvent])
# Not strict: some writers quote their numbers.
_ARGS = msgspec.json.Decoder(EventArgs | None, strict=False)
_MEMORY_ARGS = msgspec.json.Decoder(MemoryArgs | None, strict=False)

# Categories. torch 1.8 to 1.10 capitalise them.
OPERATORS = ("cpu_op", "Operator", "operator")
CALLS = ("cuda_runtime", "Runtime", "hip_runtime", "cuda_driver", "hip_driver")
KERNELS, COPIES, MEMSETS = ("kernel", "Kernel"), ("gpu_memcpy", "Memcpy"), ("gpu_memset", "Memset")
FRAMES, ANNOTATIONS, DEVICE_ANNOTATIONS = "python_function", "user_annotation", "gpu_user_annotation"
WITH_ARGS = {*OPERATORS, *CALLS, *KERNELS, *COPIES, *MEMSETS}
MEMORY = "[memory]"


def decode(text: bytes | memoryview) -> list[Event]:
    """The events of a JSON list. Raises msgspec.DecodeError for other text and for a bad event that matters."""
    try:
        return _EVENTS.decode(text)
    except msgspec.ValidationError:
        return [_check_args(event) for event in _LOOSE.decode(text)]


def _check_args(event: LooseEvent) -> Event:
    if event.ph == "X":
        args = _ARGS.decode(event.args) if event.cat in WITH_ARGS else None
        return Span(event.cat, event.name, event.pid, event.tid, event.ts, event.dur, args or NO_ARGS)
    if event.ph == "i" and event.name == MEMORY:
        memory_args = _MEMORY_ARGS.decode(event.args) or NO_MEMORY_ARGS
        return Instant(event.name, event.pid, event.tid, event.ts, memory_args)
    return Begin() if event.ph == "B" else OtherEvent()
