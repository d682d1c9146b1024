"""Records in other formats: one file a format, each a function from records to text."""

from collections.abc import Callable, Iterable
from importlib import import_module

from tare.errors import unknown
from tare.records.record import Record

Exporter = Callable[[Iterable[Record]], str]

# The module of each format has a function `export`.
FORMATS = ("csv", "json", "markdown", "pyperf", "svg", "table")


def get_exporter(name: str) -> Exporter:
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    exporter: Exporter = import_module(f"tare.export.as_{name}").export
    return exporter
