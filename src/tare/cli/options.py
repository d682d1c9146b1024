"""Options that several verbs share, and how they become a grid: lists with commas, sizes."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tare.errors import BadInput

# Any count has fewer; Python itself reads no number of more than 4300.
MOST_DIGITS = 18

StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="FILE|URL", help="The store (default: records.db in TARE_HOME).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
]

# The fields of a grid. Rungs have another default in each verb, so that their help is there.
Texts = list[str] | None
ModeOption = Annotated[Texts, typer.Option("--mode", help="infer, train.")]
DeviceOption = Annotated[Texts, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps, xpu, all.")]
PrecisionOption = Annotated[Texts, typer.Option("--precision", help="fp32, tf32, bf16, fp16, amp-bf16, amp-fp16.")]
SizeOption = Annotated[Texts, typer.Option("--size", help="Sizes of the workload: NAME=N[,N].")]
FeedOption = Annotated[Texts, typer.Option("--feed", help="device, pinned, pageable.")]
LayoutOption = Annotated[Texts, typer.Option("--layout", help="contiguous, channels-last.")]
OptimizerOption = Annotated[Texts, typer.Option("--optimizer", help="sgd, adam, adamw.")]
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
QuickOption = Annotated[bool, typer.Option("--quick", help="One round of 1.5 seconds per case.")]


def make_table(
    *, batch: Texts = None, size: Texts = None, threads: Texts = None, auto: bool = False, **lists: Texts
) -> dict[str, Any]:
    """The table of a grid (see tare.cases.grid) from these options; what was not given is not in it. `auto` allows
    that word for a batch."""
    table: dict[str, Any] = {name: split(values, f"--{name}") for name, values in lists.items()}
    table["batch"] = batches(batch) if auto else whole_numbers(batch, "--batch")
    table["size"] = sizes(size or [])
    table["threads"] = whole_numbers(threads, "--threads")
    return {name: value for name, value in table.items() if value}


def given(**options: Any) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in options.items() if value is not None}


def split(values: Texts, option: str) -> list[str]:
    """`--batch 1,32 --batch 256` gives 1, 32, 256. An option that is there and names nothing (`--rung ,`, or a
    variable that is empty) would mean its default, which is seldom what was meant."""
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
