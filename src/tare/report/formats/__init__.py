"""A comparison for machines and for other people's pages: one file a format, each a function to text."""

from collections.abc import Callable
from importlib import import_module

from tare.errors import unknown
from tare.guard.changes import Report

Renderer = Callable[[Report], str]

# The module of each format has a function `render`; `terminal` and `json` are the CLI's own.
FORMATS = ("benchmark", "github", "junit", "markdown", "sarif")


def get_renderer(name: str) -> Renderer:
    if name not in FORMATS:
        raise unknown("format", name, ("terminal", "json", *FORMATS))
    renderer: Renderer = import_module(f"tare.report.formats.as_{name}").render
    return renderer
