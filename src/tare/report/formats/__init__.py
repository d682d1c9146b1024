"""Formats for other programs and other people's pages: one file a format, each a function to text."""

from collections.abc import Callable, Iterable
from importlib import import_module

from tare.errors import unknown
from tare.guard.changes import Report
from tare.records.record import Record

Renderer = Callable[[Report], str]
Exporter = Callable[[Iterable[Record]], str]

# The module of each format has a function `render`; `terminal` and `json` are the CLI's own.
FORMATS = ("benchmark", "github", "junit", "markdown", "sarif")
# The module of each format has a function `export`.
RECORD_FORMATS = ("csv", "json", "markdown", "pyperf", "svg", "table")


def get_renderer(name: str) -> Renderer:
    if name not in FORMATS:
        raise unknown("format", name, ("terminal", "json", *FORMATS))
    renderer: Renderer = import_module(f"tare.report.formats.as_{name}").render
    return renderer


def get_exporter(name: str) -> Exporter:
    if name not in RECORD_FORMATS:
        raise unknown("format", name, RECORD_FORMATS)
    exporter: Exporter = import_module(f"tare.report.formats.records_{name}").export
    return exporter
