"""The registry of trace formats: files of other profilers, read as events that torch.profiler could have written.

A format is a class in a file of this folder, or in a plug-in (entry point `tare.traces`, or TARE_PLUGINS). It
recognises a file by how it begins, and yields lists of events; `tare.trace.read` makes the same tables of them. A
file that no format recognises is read as JSON of torch.profiler.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, TypeVar

from tare.system.bounded_files import UNPACKING_ERRORS
from tare.system.plugins import load_plugins, refuse_a_second
from tare.trace.events import Event
from tare.trace.stream import EventStream, open_trace

# How a trace may begin is looked for in this many bytes.
HEAD_BYTES = 1 << 16
JSON_ENDINGS = (".json", ".json.gz")
# What converts files that only their own tool reads.
CONVERSIONS = {
    ".nsys-rep": "nsys export --type sqlite",
    ".qdrep": "nsys export --type sqlite",
    ".pftrace": "traceconv json",
    ".perfetto-trace": "traceconv json",
}


class TraceFormat(ABC):
    """One file of a format. Iterating over it yields lists of events; `metadata` is complete after the last."""

    # The profiler, as a message names it, and the usual endings of its files.
    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}

    @staticmethod
    @abstractmethod
    def begins(head: bytes) -> bool:
        """Whether a file that begins like this (unpacked) is of the format."""

    @abstractmethod
    def __iter__(self) -> Iterator[list[Event]]: ...


F = TypeVar("F", bound=type[TraceFormat])
_formats: dict[str, type[TraceFormat]] = {}


def trace_format(format: F) -> F:
    """Registers the decorated class."""
    refuse_a_second("trace format", format.name, format, _formats.get(format.name))
    _formats[format.name] = format
    return format


def all_formats() -> list[type[TraceFormat]]:
    load_plugins("tare.traces", tuple(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
    return [_formats[name] for name in sorted(_formats)]


def find_format(head: bytes) -> type[TraceFormat] | None:
    return next((format for format in all_formats() if format.begins(head)), None)


def read_head(path: Path) -> bytes:
    """How a file begins, unpacked. OSError and UNPACKING_ERRORS where it cannot be read."""
    with open_trace(path) as file:
        return file.read(HEAD_BYTES)


def open_events(path: Path) -> TraceFormat | EventStream:
    try:
        format = find_format(read_head(path))
    except (OSError, *UNPACKING_ERRORS):
        # EventStream says what is wrong with the file.
        format = None
    return format(path) if format else EventStream(path)


def trace_endings() -> tuple[str, ...]:
    return (*JSON_ENDINGS, *(ending for format in all_formats() for ending in format.endings))
