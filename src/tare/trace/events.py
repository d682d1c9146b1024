"""The events of a Kineto trace (torch.profiler), as far as tare reads them.

Where the arguments of a chunk have unexpected types, its events are decoded again with raw arguments, and only
arguments that matter are checked: a malformed argument of an event that is not used is ignored.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import msgspec

from tare.trace.tables import COPY, KERNEL, MEMSET

Tag = int | float | str | None
# msgspec allows no union of None with Raw.
ABSENT = msgspec.Raw(b"")
MEMORY = "[memory]"
# Beyond this, a number of microseconds does not fit an int64 of nanoseconds.
LATEST = 4e15
# Events that are made one by one are passed on in lists of this length.
LIST_LENGTH = 4096
# The table of each category, and the kind of its events there. torch 1.8 to 1.10 capitalise categories.
CATEGORIES = {
    **dict.fromkeys(("cpu_op", "Operator", "operator"), ("operators", 0)),
    **dict.fromkeys(
        (
            *("cuda_runtime", "Runtime", "hip_runtime", "cuda_driver", "hip_driver", "xpu_runtime", "xpu_driver"),
            *("mtia_runtime", "privateuse1_runtime", "privateuse1_driver"),
        ),
        ("calls", 0),
    ),
    # MTIA's kernels have a category of their own.
    **dict.fromkeys(("kernel", "Kernel", "mtia_ccp_events"), ("device", KERNEL)),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), ("device", COPY)),
    **dict.fromkeys(("gpu_memset", "Memset"), ("device", MEMSET)),
    "user_annotation": ("annotations", 0),
    "gpu_user_annotation": ("annotations", 1),
    "python_function": ("frames", 0),
}
# The arguments of each table's events that are columns of the table.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "operators": ("sequence", "forward_thread", "external"),
    "calls": ("correlation", "external"),
    "device": ("device", "stream", "correlation", "external", "bytes", "registers", "shared"),
    "annotations": (),
    "frames": (),
    "memory": ("size", "address", "device_type", "device_number", "allocated", "reserved"),
}

_WITH_ARGS = {category for category, (table, _) in CATEGORIES.items() if ARGUMENTS[table]}


class EventArgs(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an event, in the order of the profiler: msgspec expects the next key after the last."""

    # The operator that an event belongs to. torch 1.x and other writers have it in lower case.
    external: int = msgspec.field(name="External id", default=-1)
    external_old: int = msgspec.field(name="external id", default=-1)
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
    # Allocations and releases of memory; the totals are those after it.
    reserved: int = msgspec.field(name="Total Reserved", default=-1)
    allocated: int = msgspec.field(name="Total Allocated", default=-1)
    size: int = msgspec.field(name="Bytes", default=0)
    device_number: int = msgspec.field(name="Device Id", default=-1)
    device_type: int = msgspec.field(name="Device Type", default=0)
    address: int | str = msgspec.field(name="Addr", default=0)
    # Collectives: of their kernels, and of the operator record_param_comms.
    collective: msgspec.Raw = msgspec.field(name="Collective name", default=ABSENT)
    element: msgspec.Raw = msgspec.field(name="dtype", default=ABSENT)
    sent: msgspec.Raw = msgspec.field(name="In msg nelems", default=ABSENT)
    received: msgspec.Raw = msgspec.field(name="Out msg nelems", default=ABSENT)
    ranks: msgspec.Raw = msgspec.field(name="Group size", default=ABSENT)
    group: msgspec.Raw = msgspec.field(name="Process Group Name", default=ABSENT)
    members: msgspec.Raw = msgspec.field(name="Process Group Ranks", default=ABSENT)


NO_ARGS = EventArgs()


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: EventArgs | None = None
    # Of flow events only.
    id: Tag = None


def span(
    category: str, name: str, thread: tuple[Tag, Tag], start: int, end: int, args: EventArgs | None = None
) -> Event:
    """A span from `start` to `end` (ns) as torch.profiler writes it. `thread` is a process and its thread, or a
    device and its stream."""
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return Event(ph="X", cat=category, name=name, pid=thread[0], tid=thread[1], args=args, **times)


def triple(x: int, y: int, z: int) -> msgspec.Raw:
    """A grid or a block, as an argument of a kernel."""
    return msgspec.Raw(b"[%d,%d,%d]" % (x, y, z))


def in_lists(events: Iterable[Event]) -> Iterator[list[Event]]:
    """The events in lists that the tables take one by one."""
    rest = iter(events)
    while part := list(islice(rest, LIST_LENGTH)):
        yield part


class LooseEvent(Event, gc=False):
    """An event whose arguments are not decoded."""

    args: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


_EVENTS = msgspec.json.Decoder(list[Event])
_LOOSE = msgspec.json.Decoder(list[LooseEvent])
# Not strict: some writers quote their numbers.
_ARGS = msgspec.json.Decoder(EventArgs | None, strict=False)


def decode(text: bytes) -> list[Event]:
    """The events of a JSON list. Raises msgspec.DecodeError for other text and for a bad event that matters."""
    try:
        return _EVENTS.decode(text)
    except msgspec.ValidationError:
        events = cast(list[Event], _LOOSE.decode(text))
    for event in events:
        matters = event.cat in _WITH_ARGS or event.name == MEMORY
        event.args = _ARGS.decode(cast(msgspec.Raw, event.args)) if matters else None
    return events
