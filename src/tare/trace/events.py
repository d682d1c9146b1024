"""The events of a Kineto trace as torch.profiler writes them, as far as tare reads them.

The arguments of every category are in one structure, so that an event is decoded in one go. Where a piece of a
trace has arguments of other types, its events are decoded loosely, and the arguments of those that matter one by
one: what is odd in an event that nobody needs harms nothing.
"""

import msgspec

Tag = int | float | str | None
# Not None: msgspec takes no union with Raw.
NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, frozen=True, gc=False):
    # Operators.
    external: int = msgspec.field(name="External id", default=-1)
    sequence: int = msgspec.field(name="Sequence number", default=-1)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=-1)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=NOTHING)
    # Traces of torch 1.x.
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)
    # Calls, kernels, copies, memsets, waits.
    correlation: int = -1
    device: int = 0
    stream: int | str = -1
    bytes: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared: int = msgspec.field(name="shared memory", default=-1)
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    graph: int = msgspec.field(name="graph id", default=-1)
    node: int = msgspec.field(name="graph node id", default=-1)
    # Python frames, builtins, modules' forwards.
    identifier: int | None = msgspec.field(name="Python id", default=None)
    module: int | None = msgspec.field(name="Python module id", default=None)
    # Allocations and releases, and what was allocated after them.
    address: int | str = msgspec.field(name="Addr", default=0)
    allocation: int = msgspec.field(name="Bytes", default=0)
    device_type: int = msgspec.field(name="Device Type", default=0)
    device_number: int = msgspec.field(name="Device Id", default=-1)
    allocated: int = msgspec.field(name="Total Allocated", default=-1)
    reserved: int = msgspec.field(name="Total Reserved", default=-1)


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`."""

    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | None = None
    args: Args = NO_ARGS


class LooseEvent(msgspec.Struct, gc=False):
    """The same with its arguments as they are written."""

    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


_EVENTS = msgspec.json.Decoder(list[Event])
_LOOSE = msgspec.json.Decoder(list[LooseEvent])
# Not strict: some writers quote their numbers.
_ARGS = msgspec.json.Decoder(Args, strict=False)

OPERATORS = ("cpu_op", "Operator", "operator")
CALLS = ("cuda_runtime", "Runtime", "hip_runtime")
DRIVER_CALLS = ("cuda_driver", "hip_driver")
KERNELS, COPIES, MEMSETS = ("kernel", "Kernel"), ("gpu_memcpy", "Memcpy"), ("gpu_memset", "Memset")
# Categories whose arguments are read. Old traces (torch 1.8 to 1.10) capitalise.
WITH_ARGS = {*OPERATORS, *CALLS, *DRIVER_CALLS, *KERNELS, *COPIES, *MEMSETS, "python_function", "cuda_sync"}
MEMORY = "[memory]"


def decode(text: bytes) -> list[Event]:
    """The events of a JSON list; msgspec.DecodeError where it is none, or an event that matters cannot be read."""
    try:
        return _EVENTS.decode(text)
    except msgspec.ValidationError:
        return [_tighten(event) for event in _LOOSE.decode(text)]


def _tighten(event: LooseEvent) -> Event:
    matters = event.cat in WITH_ARGS or event.name == MEMORY
    args = _ARGS.decode(event.args) if matters else NO_ARGS
    return Event(event.ph, event.cat, event.name, event.pid, event.tid, event.ts, event.dur, args)
