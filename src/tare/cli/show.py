"""tare show: ladders from the store."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, print_json
from tare.errors import BadInput


def show(
    terms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY | ID | WORKLOAD | FIELD=VALUE | FILE]... | workload NAME", show_default=False
        ),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="One line per record instead of ladders.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show ladders and records, from the store or from a FILE.

    With nothing named, the newest run in the store. FILE is what tare export wrote (.json, .json.gz); other terms
    then choose among its records. `workload NAME` describes a workload. docs/records.md has all terms.
    """
    from tare.commands.records import find_records, newest_run, no_record
    from tare.report.ladder import make_ladders
    from tare.report.overview import overview
    from tare.report.record import record_view
    from tare.report.suite import make_suites
    from tare.report.terminal import make_console

    if terms and terms[0] == "workload":
        _show_workload(terms[1:], as_json)
        return

    records = find_records(terms, store, latest=True) if terms else newest_run(store)
    if terms and not records:
        raise no_record(terms)
    if as_json:
        print_json({"records": records, "ladders": make_ladders(records), "suites": make_suites(records)})
        return
    if not records:
        raise BadInput("the store is empty")
    console = make_console()
    if len(records) == 1 and not table:
        console.print(record_view(records[0]))
        return
    for part in overview(records, table=table):
        console.print(part)


def _show_workload(names: list[str], as_json: bool) -> None:
    from tare.commands.survey import describe_workload
    from tare.report.lists import workload_view
    from tare.report.terminal import make_console

    if len(names) != 1:
        raise BadInput("name one workload: tare show workload NAME")
    workload = describe_workload(names[0])
    if as_json:
        print_json(workload)
    else:
        make_console().print(workload_view(workload))
