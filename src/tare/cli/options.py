"""Parsing that several verbs share: lists with commas, sizes, the store."""

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from tare.errors import BadInput

StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="FILE|URL", help="The store (default: in TARE_HOME).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output, and nothing else there.")]


def split(values: Iterable[str]) -> list[str]:
    """`--batch 1,32 --batch 256` gives 1, 32, 256."""
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def whole_numbers(values: Iterable[str], option: str) -> list[int]:
    numbers = []
    for text in split(values):
        if not text.isdecimal() or int(text) < 1:
            raise BadInput(f"{option} takes positive whole numbers, not '{text[:40]}'")
        numbers.append(int(text))
    return numbers


def batches(values: Iterable[str]) -> list[int] | str:
    """Batch sizes, or `auto` alone."""
    texts = split(values)
    if texts == ["auto"]:
        return "auto"
    if "auto" in texts:
        raise BadInput("--batch takes auto alone, or positive whole numbers")
    return whole_numbers(texts, "--batch")


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
