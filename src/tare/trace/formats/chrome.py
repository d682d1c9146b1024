"""Chrome traces (chrome://tracing, Perfetto) of other tools than torch.profiler: JAX, TensorFlow, rocprof, others.

Their events have no categories of torch.profiler. Which process is a device, and which thread a stream, is in
events of their own that may come anywhere in the file. So it is read twice: for the names, and for the spans.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tare.system.xspace import HOST, TPU_OPERATORS, device_number, stream_number
from tare.trace.events import LATEST, Event, EventArgs, Tag, span
from tare.trace.formats import rocprof_traces
from tare.trace.formats.ranges import marked_step
from tare.trace.formats.rocprof_traces import rocprof_event
from tare.trace.formats.xla import XlaEvents, number
from tare.trace.stream import JsonStream

Args = dict[str, Any]
# A process or a thread of such a name is a device, or a stream of one.
_DEVICE = re.compile(r"\b(?:GPU|CUDA|HIP)\b(?! API)[ :#]*(\d{1,4})?", re.I)
_STREAM = re.compile(r"\bstream[ :#]*(\d{1,9})", re.I)
_COPY, _MEMSET = re.compile(r"mem_?cpy|copy_?(?:to|from|host|device)", re.I), re.compile(r"mem_?set", re.I)
_CALL = re.compile(r"(?:cuda|hip|cu)[A-Z]\w+")
# No process has a longer name. It is looked at for every event.
LONGEST_NAME = 200
_CORRELATION = ("correlation", "correlation_id", "correlationId", "corr_id")


class ChromeEvent(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    pid: Tag = None
    tid: Tag = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Track(NamedTuple):
    """The names of an event's process and thread, and the numbers of both."""

    process: str
    thread: str
    numbers: tuple[Tag, Tag]


Convert = Callable[[ChromeEvent, Args, Track], Iterator[Event]]
_decode_events = msgspec.json.Decoder(list[ChromeEvent]).decode
_decode_args = msgspec.json.Decoder(Args).decode


class ChromeTrace:
    """Iterates over lists of events. `metadata`, everything beside the events, is complete after the last list."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self._processes: dict[str, str] = {}
        self._threads: dict[tuple[str, str], str] = {}

    def __iter__(self) -> Iterator[list[Event]]:
        convert = self._read_names()
        stream = JsonStream(self.path, _decode_events)
        for events in stream:
            yield [made for event in events for made in self._convert(event, convert)]
        self.metadata = stream.metadata

    def _read_names(self) -> Convert:
        """Reads the names, and what else must be known before the first span; how the spans are to be read."""
        xla, of_rocprof = XlaEvents(), False
        for events in JsonStream(self.path, _decode_events):
            for event in events:
                if event.ph == "M":
                    self._take_name(event)
                    continue
                track = self._track(event)
                of_rocprof |= event.cat in rocprof_traces.CATEGORIES
                if device_number(track.process) is not None and _stream(track) is not None:
                    xla.has_device = True
                    xla.learn(str(event.name), _args(event))
        names = set(self._processes.values())
        if any(name.startswith((HOST, "/device:")) for name in names):
            return lambda event, args, track: _xla_events(xla, event, args, track)
        if of_rocprof or names.intersection(rocprof_traces.PROCESSES):
            return lambda event, args, track: rocprof_event(
                str(event.name), event.cat, track.process, track.numbers, _times(event), args
            )
        return _any_event

    def _take_name(self, event: ChromeEvent) -> None:
        name = str(_args(event).get("name", ""))[:LONGEST_NAME]
        if event.name == "process_name":
            self._processes[str(event.pid)] = name
        elif event.name == "thread_name":
            self._threads[str(event.pid), str(event.tid)] = name

    def _track(self, event: ChromeEvent) -> Track:
        process, thread = str(event.pid), str(event.tid)
        names = self._processes.get(process, ""), self._threads.get((process, thread), "")
        return Track(*names, (event.pid, event.tid))

    def _convert(self, event: ChromeEvent, convert: Convert) -> Iterator[Event]:
        if event.ph == "E":
            yield Event(ph="E", pid=event.pid, tid=event.tid, ts=event.ts)
        elif event.ph in ("X", "B", "b"):
            for made in convert(event, _args(event), self._track(event)):
                # rocprof says among the arguments when a span ends.
                if event.ph == "X" or made.dur:
                    yield made
                elif event.ph == "B":
                    made.ph = "B"
                    yield made


def _args(event: ChromeEvent) -> Args:
    try:
        return _decode_args(event.args)
    except msgspec.ValidationError:
        return {}


def _times(event: ChromeEvent) -> tuple[int, int]:
    """Nanoseconds. A span without a usable time ends before it starts."""
    try:
        start, length = float(event.ts or 0), float(event.dur or 0)
    except ValueError:
        return 0, -1
    if not (abs(start) < LATEST and 0 <= length < LATEST):
        return 0, -1
    return round(start * 1000), round(start * 1000) + round(length * 1000)


def _stream(track: Track) -> int | None:
    return 0 if track.thread == TPU_OPERATORS else stream_number(track.thread)


def _xla_events(xla: XlaEvents, event: ChromeEvent, args: Args, track: Track) -> Iterator[Event]:
    """JAX and TensorFlow: their XPlanes as Chrome traces (xla/tsl/profiler/convert/xplane_to_trace_events.cc)."""
    name, device, stream = str(event.name), device_number(track.process), _stream(track)
    if device is not None and stream is not None:
        yield from xla.on_device(name, args, device, stream, *_times(event))
    elif track.process.startswith(HOST):
        yield from xla.on_host(name, args, track.numbers, *_times(event))


def _any_event(event: ChromeEvent, args: Args, track: Track) -> Iterator[Event]:
    """What the names of any tool suggest."""
    name, times = str(event.name), _times(event)
    correlation = next((known for key in _CORRELATION if (known := number(args.get(key))) > 0), -1)
    device, stream = _DEVICE.search(track.process), _STREAM.search(track.thread)
    if device or stream or _DEVICE.search(track.thread):
        category = "gpu_memcpy" if _COPY.search(name) else "gpu_memset" if _MEMSET.search(name) else "kernel"
        work = EventArgs(
            device=int(device[1] or 0) if device else 0,
            stream=int(stream[1]) if stream else number(track.numbers[1]),
            correlation=correlation,
            bytes=number(args.get("bytes", args.get("size"))),
        )
        yield span(category, name, track.numbers, *times, work)
    elif step := marked_step(name):
        yield span("user_annotation", step, track.numbers, *times)
    elif _CALL.fullmatch(name):
        yield span("cuda_runtime", name, track.numbers, *times, EventArgs(correlation=correlation))
    else:
        yield span("cpu_op", name, track.numbers, *times)
