"""tare import: exported records, and results of other benchmark tools, into the store."""

from pathlib import Path
from typing import Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, print_json


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import exported records, or results of other tools.

    What tare export wrote becomes records again. JSON of pyperf, pytest-benchmark and google-benchmark is kept for
    tare history.
    """
    from tare.commands.records import import_files
    from tare.report.numbers import several

    imported = import_files(files, store)
    if as_json:
        print_json(imported)
        return
    for file in imported:
        typer.echo(f"{file.file}: {file.source}, {several(file.found, file.kind[:-1])}, {file.new} new")
        for name, reason in file.skipped.items():
            typer.echo(f"  {name} skipped: {reason}")
