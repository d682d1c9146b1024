"""tare report: one page of everything that was measured."""

from pathlib import Path
from typing import Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, Texts, print_json
from tare.cli.records import TERMS
from tare.cli.study import complete_studies


def report(
    terms: Annotated[Texts, typer.Argument(metavar=TERMS, show_default=False)] = None,
    study: Annotated[
        Texts,
        typer.Option(
            metavar="NAME", help="Also a study's claims and verdicts; several.", autocompletion=complete_studies
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the page to this file.")] = Path(
        "report.html"
    ),
    title: Annotated[str, typer.Option(help="The title of the page.")] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a page of records: the answer in words, charts, tables, claims.

    With nothing named, the newest run in the store. FILE is what tare export wrote (.json, .json.gz); other terms
    then choose among its records. The page is one file, needs no network, and can be printed.
    """
    from tare.commands.report import gather_report
    from tare.report.files import write_whole
    from tare.report.web.report_page import report_html

    content = gather_report(terms or [], study or [], store, title)
    if as_json:
        print_json(content.document())
        return
    write_whole(output, report_html(content))
    typer.echo(f"wrote {output}")
