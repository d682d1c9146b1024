"""Options that several verbs share, how they become a grid, and what the shell completes."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cases.case import CHOICES
from tare.errors import BadInput

# No count has more. Python itself refuses to read a number of more than 4300 digits.
MOST_DIGITS = 18


def complete_targets(incomplete: str) -> list[str]:
    """Workloads and groups, for the shell."""
    from tare.workloads import all_workloads
    from tare.workloads.groups import all_groups

    names = [*all_workloads(), *(f"@{group}" for group in all_groups())]
    return [name for name in names if name.startswith(incomplete)]


def complete_rungs(incomplete: str) -> list[str]:
    """Rungs and their variants, also the last of a list with commas. For the shell."""
    from tare.rungs.registry import every_name

    head, comma, last = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in every_name() if name.startswith(last)]


def complete_words(help: str) -> Callable[[str], list[str]]:
    """The words that a help text lists."""
    return lambda incomplete: [word for word in re.findall(r"[\w:-]+", help) if word.startswith(incomplete)]


StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="FILE|URL", help="The store (default: records.db in TARE_HOME).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
]

# The fields of a grid. Rungs have another default in each verb, which states it in its help.
Texts = list[str] | None


def _choice(option: str, help: str = "") -> Any:
    """An option that takes the words of its help; by default, those that a case allows for this field."""
    help = help or f"{', '.join(CHOICES[option.removeprefix('--')])}."
    return typer.Option(option, help=help, autocompletion=complete_words(help))


ModeOption = Annotated[Texts, _choice("--mode")]
DeviceOption = Annotated[Texts, _choice("--device", "auto, cpu, cuda, cuda:1, mps, xpu, all.")]
PrecisionOption = Annotated[Texts, _choice("--precision")]
SizeOption = Annotated[Texts, typer.Option("--size", help="Sizes of the workload: NAME=N[,N].")]
FeedOption = Annotated[Texts, _choice("--feed")]
LayoutOption = Annotated[Texts, _choice("--layout")]
OptimizerOption = Annotated[Texts, _choice("--optimizer")]
SmokeOption = Annotated[bool, typer.Option("--smoke", help="The workloads' small sizes, for a CPU.")]
BatchOption = Annotated[Texts, typer.Option("--batch", help="Batch sizes, or auto (default: the workload's).")]
ThreadsOption = Annotated[Texts, typer.Option("--threads", help="CPU threads (default: torch's).")]

# How a case is measured.
RoundsOption = Annotated[int | None, typer.Option("--rounds", help="Fresh processes per case (default 3).")]
BudgetOption = Annotated[float | None, typer.Option("--budget", help="Seconds of sampling per case (default 12).")]
TimeoutOption = Annotated[float | None, typer.Option("--timeout", help="Seconds after which a round is killed.")]
IsolationOption = Annotated[
    str | None, typer.Option("--isolation", help="fork (cheap) or spawn (nothing shared).")
]
RecordedOption = Annotated[
    bool, typer.Option("--recorded", help="Measure only what the store has no comparable record of.")
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="One round of 1.5 seconds per case; C++ only if it is built.")
]


def make_table(
    *, batch: Texts = None, size: Texts = None, threads: Texts = None, auto: bool = False, **lists: Texts
) -> dict[str, Any]:
    """The table of a grid (see tare.cases.grid) with the options that were given. `auto` allows `--batch auto`."""
    table: dict[str, Any] = {name: split(values, f"--{name}") for name, values in lists.items()}
    table["batch"] = batches(batch) if auto else whole_numbers(batch, "--batch")
    table["size"] = sizes(size or [])
    table["threads"] = whole_numbers(threads, "--threads")
    return {name: value for name, value in table.items() if value}


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def split(values: Texts, option: str) -> list[str]:
    """`--batch 1,32 --batch 256` gives 1, 32, 256. An option that names nothing (`--rung ,`, an empty variable) is
    refused: its default is seldom what was meant."""
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    if values and not parts:
        raise BadInput(f"{option} names nothing; leave it out for the default")
    return parts


def whole_numbers(values: Texts, option: str, besides: str = "") -> list[int]:
    numbers = []
    for text in split(values, option):
        if not re.fullmatch(f"0*[1-9][0-9]{{0,{MOST_DIGITS - 1}}}", text):
            raise BadInput(f"{option} takes {besides}positive whole numbers, not '{text[:40]}'")
        numbers.append(int(text))
    return numbers


def batches(values: Texts) -> list[int] | str:
    """Batch sizes, or `auto` alone."""
    texts = split(values, "--batch")
    if texts == ["auto"]:
        return "auto"
    if "auto" in texts:
        raise BadInput("--batch takes auto alone, or positive whole numbers")
    return whole_numbers(texts, "--batch", "auto or ")


def sizes(values: Iterable[str]) -> dict[str, list[int]]:
    """`--size resolution=64,224 --size classes=10` as a table of lists."""
    table: dict[str, list[int]] = {}
    for value in values:
        name, equals, numbers = value.partition("=")
        if not name or not equals or not numbers:
            raise BadInput(f"--size takes NAME=NUMBER[,NUMBER], not '{value[:60]}'")
        table.setdefault(name.strip(), []).extend(whole_numbers([numbers], f"--size {name}"))
    return table


def print_json(document: Any) -> None:
    """One document on standard output."""
    import msgspec

    typer.echo(json.dumps(msgspec.to_builtins(document), indent=1, allow_nan=False))
