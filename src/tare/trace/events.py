"""The events of a Kineto trace as torch.profiler writes them, as far as tare reads them.

An event's arguments are read in a second step and by category: what is odd in one that nobody needs harms nothing.
"""

from typing import Any

import msgspec

Tag = int | float | str | None
# Not None: msgspec takes no union with Raw.
NOTHING = msgspec.Raw(b"")


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`."""

    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class OperatorArgs(msgspec.Struct, gc=False):
    external: int = msgspec.field(name="External id", default=-1)
    sequence: int = msgspec.field(name="Sequence number", default=-1)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=-1)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=NOTHING)
    # Traces of torch 1.x.
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)


class CallArgs(msgspec.Struct, gc=False):
    """A call of the CUDA runtime or driver."""

    correlation: int = -1
    external: int = msgspec.field(name="External id", default=-1)


class DeviceArgs(msgspec.Struct, gc=False):
    """A kernel, a copy or a memset."""

    device: int = 0
    stream: int | str = -1
    correlation: int = -1
    external: int = msgspec.field(name="External id", default=-1)
    bytes: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared: int = msgspec.field(name="shared memory", default=-1)
    grid: list[int] | None = None
    block: list[int] | None = None
    graph: int = msgspec.field(name="graph id", default=-1)
    node: int = msgspec.field(name="graph node id", default=-1)


class FrameArgs(msgspec.Struct, gc=False):
    """A Python frame, a call of a builtin, or an nn.Module's forward."""

    identifier: int | None = msgspec.field(name="Python id", default=None)
    parent: int | None = msgspec.field(name="Python parent id", default=None)
    module: int | None = msgspec.field(name="Python module id", default=None)


class MemoryArgs(msgspec.Struct, gc=False):
    """One allocation or (negative bytes) release, and what was allocated after it."""

    address: int | str = msgspec.field(name="Addr", default=0)
    bytes: int = msgspec.field(name="Bytes", default=0)
    device_type: int = msgspec.field(name="Device Type", default=0)
    device: int = msgspec.field(name="Device Id", default=-1)
    allocated: int = msgspec.field(name="Total Allocated", default=-1)
    reserved: int = msgspec.field(name="Total Reserved", default=-1)


class SyncArgs(msgspec.Struct, gc=False):
    """A wait that the device's side reports (category cuda_sync)."""

    kind: str = msgspec.field(name="cuda_sync_kind", default="")
    device: int = 0
    stream: int | str = -1
    correlation: int = -1


DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {
    # Not strict: some writers quote their numbers.
    kind: msgspec.json.Decoder(kind, strict=False)
    for kind in (OperatorArgs, CallArgs, DeviceArgs, FrameArgs, MemoryArgs, SyncArgs)
}
EVENTS = msgspec.json.Decoder(list[Event])
