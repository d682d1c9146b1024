"""XPlanes: what the profilers of JAX and TensorFlow write to LOGDIR/plugins/profile/DATE/HOST.xplane.pb."""

from collections.abc import Iterator

from tare.errors import BadInput
from tare.system.protobuf import DamagedMessage
from tare.system.xspace import HOST, TPU_OPERATORS, XEvent, XLine, XPlane, XSpace, begins_like_xspace
from tare.trace.events import Event, in_lists
from tare.trace.formats import TraceFormat, trace_format
from tare.trace.formats.xla import XlaEvents, device_properties

# The compiled programs, which nothing here needs.
METADATA = "/host:metadata"


@trace_format
class XPlaneProfile(TraceFormat):
    name = "XPlane (JAX, TensorFlow)"
    endings = (".xplane.pb", ".xplane.pb.gz")

    @staticmethod
    def begins(head: bytes) -> bool:
        return begins_like_xspace(head)

    def __iter__(self) -> Iterator[list[Event]]:
        try:
            planes = XSpace(self.path).planes
            devices = [plane for plane in planes if plane.device is not None and streams(plane)]
            self.metadata["deviceProperties"] = [
                device_properties(plane.device or 0, plane.stats) for plane in devices
            ]
            hosts = [plane for plane in planes if plane.name.startswith(HOST) and plane.name != METADATA]
            yield from in_lists(_events(devices, hosts))
        except DamagedMessage as error:
            raise BadInput(f"the trace {self.path} is truncated or damaged: {error}") from None


def streams(plane: XPlane) -> list[XLine]:
    """The lines of a device that have its work, and have it once."""
    return [line for line in plane.lines if line.stream is not None]


def _events(devices: list[XPlane], hosts: list[XPlane]) -> Iterator[Event]:
    convert = XlaEvents(has_device=bool(devices))
    first = min((line.start for plane in (*devices, *hosts) for line in plane.lines), default=0)
    for plane in devices:
        for line in streams(plane):
            for event in leaves(line):
                convert.learn(event.name, event.stats)
                times = event.start - first, event.end - first
                yield from convert.on_device(event.name, event.stats, plane.device or 0, line.stream or 0, *times)
    for plane in hosts:
        for line in plane.lines:
            for event in line.events:
                times = event.start - first, event.end - first
                yield from convert.on_host(event.name, event.stats, (plane.name, line.id), *times)


def leaves(line: XLine) -> Iterator[XEvent]:
    """The events of a stream. Of a TPU's operations, those that contain no other: a loop contains its body."""
    if line.name != TPU_OPERATORS:
        yield from line.events
        return
    ordered = sorted(line.events, key=lambda event: (event.start, -event.end))
    for event, following in zip(ordered, [*ordered[1:], None], strict=True):
        if following is None or following.start >= event.end:
            yield event
