"""tare export: records in other formats."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, OutputOption, StoreOption
from tare.errors import BadInput


def export(
    terms: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY | ID | WORKLOAD | FIELD=VALUE | FILE]...", show_default=False),
    ] = None,
    format: Annotated[str, typer.Option("--format", help="json, csv, markdown, table, svg, pyperf.")] = "json",
    output: OutputOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write records in another format.

    With nothing named, every record in the store. FILE is what tare export wrote before (.json, .json.gz); other
    terms then choose among its records. docs/records.md has all terms.
    """
    from tare.commands.records import find_records, no_record
    from tare.report.files import write_whole
    from tare.report.formats import get_record_format

    if as_json and format != "json":
        raise BadInput(f"--json and --format {format} are two formats: name one")
    exporter = get_record_format(format)
    records = find_records(terms or [], store)
    if terms and not records:
        raise no_record(terms)
    text = exporter(records)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text)
