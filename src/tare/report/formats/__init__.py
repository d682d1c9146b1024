"""The registry of formats: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS.

A format is a function to text. It takes the records of `tare export`, or the comparison that `tare compare` and
`tare check` report. A plug-in package names the module that registers it under the entry point `tare.formats`.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from tare.errors import unknown
from tare.guard.changes import Report
from tare.records.record import Record
from tare.system.plugins import load_plugins, refuse_a_second

FormatInput = Literal["records", "comparison"]
RecordFormatter = Callable[[Sequence[Record]], str]
ComparisonFormatter = Callable[[Report], str]
F = TypeVar("F", bound=Callable[..., str])

_OWN = tuple(
    f"tare.report.formats.{name}"
    for name in ("benchmark", "csv", "github", "json", "junit", "markdown", "mpe", "pyperf", "sarif", "svg")
)


class Format(NamedTuple):
    name: str
    takes: FormatInput
    summary: str
    function: Callable[..., str]


_formats: dict[tuple[FormatInput, str], Format] = {}


def record_format(name: str, summary: str) -> Callable[[F], F]:
    """Registers the decorated function, which turns a sequence of records into text."""
    return _register("records", name, summary)


def comparison_format(name: str, summary: str) -> Callable[[F], F]:
    """Registers the decorated function, which turns a comparison into text."""
    return _register("comparison", name, summary)


def all_formats() -> list[Format]:
    load_plugins("tare.formats", _OWN)
    return [_formats[key] for key in sorted(_formats)]


def get_record_format(name: str) -> RecordFormatter:
    return _get("records", name)


def get_comparison_format(name: str) -> ComparisonFormatter:
    """`terminal` is not among them: the CLI renders that one for the console it prints to."""
    return _get("comparison", name)


def _register(takes: FormatInput, name: str, summary: str) -> Callable[[F], F]:
    def register(function: F) -> F:
        known = _formats.get((takes, name))
        refuse_a_second("format", name, function, known and known.function)
        _formats[takes, name] = Format(name, takes, summary, function)
        return function

    return register


def _get(takes: FormatInput, name: str) -> Callable[..., str]:
    valid = {each.name: each for each in all_formats() if each.takes == takes}
    if name not in valid:
        raise unknown("format", name, [*valid, *(["terminal"] if takes == "comparison" else [])])
    return valid[name].function
