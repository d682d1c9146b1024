"""tare show: ladders from the store."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, print_json
from tare.errors import BadInput


def show(
    terms: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY | ID | WORKLOAD | FIELD=VALUE]...", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show ladders and records from the store (the newest run, if nothing is named)."""
    from tare.report.ladder import make_ladders
    from tare.report.record import record_view
    from tare.report.terminal import ladder_view, make_console
    from tare.survey import find_records, newest_run

    records = find_records(terms, store, latest=True) if terms else newest_run(store)
    if as_json:
        print_json({"records": records, "ladders": make_ladders(records)})
        return
    if not records:
        raise BadInput(
            f"no record matches {' '.join(terms)}; tare list records" if terms else "the store is empty"
        )
    console = make_console()
    if len(records) == 1:
        console.print(record_view(records[0]))
        return
    for ladder in make_ladders(records):
        console.print(ladder_view(ladder))
        console.print()
