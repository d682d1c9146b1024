"""tare diff: two records or traces side by side."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, print_json


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A trace, or a record's id, key or file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    rows: Annotated[int, typer.Option(min=1, help="How many operators and kernels to show.")] = 15,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two traces or two records.

    Shows the operators and kernels that appeared, vanished or slowed.
    """
    from rich.text import Text

    from tare.commands.diff import diff as compare
    from tare.report.diff import diff_view
    from tare.report.terminal import make_console

    with make_console(stderr=True).status(Text(f"comparing {before} and {after}")):
        found = compare(before, after, store)
    if as_json:
        print_json(found.document())
    else:
        make_console().print(diff_view(found.records, found.trace, found.notes, rows))
