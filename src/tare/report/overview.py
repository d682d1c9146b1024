"""The records of a run at a glance: ladders where they are few, a table where they are many, and the suites."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from tare.cases.grid import Skip
from tare.records.record import Record
from tare.report.ladder import make_ladders
from tare.report.suite import make_suites
from tare.report.suite_view import suite_view
from tare.report.table import table_view
from tare.report.terminal import ladder_view

# More ladders than this are read as a table; each can still be shown by its name.
MOST_LADDERS = 8


def overview(
    records: Sequence[Record], skipped: Sequence[Skip] = (), table: bool = False
) -> Iterator[RenderableType]:
    """What to print, part by part. `table` asks for the table however few they are."""
    ladders = make_ladders(records)
    if records and (table or len(ladders) > MOST_LADDERS):
        yield table_view(records)
        yield Text("")
    else:
        for ladder in ladders:
            yield ladder_view(ladder)
            yield Text("")
    for suite in make_suites(records, skipped):
        yield suite_view(suite)
        yield Text("")
