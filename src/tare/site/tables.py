"""A table of a page: typed values once, shown as HTML, CSV or JSON."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tare.report.numbers import change_text, percent, rate, seconds, size
from tare.report.view import WORD_STYLES

Kind = Literal["text", "key", "seconds", "bytes", "share", "ratio", "x", "rate", "count", "moment", "word"]
# What a cell shows by its kind; a dash for what is not known.
SHOWN: dict[Kind, Callable[[Any], str]] = {
    "text": str,
    "key": str,
    "word": str,
    "seconds": lambda number: seconds(number, 3),
    "bytes": lambda number: size(round(number)),
    "share": percent,
    "ratio": lambda number: change_text(number),
    "x": lambda number: f"{number:.3g}x",
    "rate": rate,
    "count": lambda number: f"{number:,}",
    "moment": lambda moment: str(moment)[:16].replace("T", " "),
}
WORDS: tuple[Kind, ...] = ("text", "key", "word", "moment")


class Column(NamedTuple):
    """`link` names the field of a row with the path of a page; `unit` is that of the raw value."""

    name: str
    head: str
    kind: Kind = "text"
    link: str = ""


class Cell(NamedTuple):
    text: str
    path: str = ""
    style: str = ""


class DataTable(NamedTuple):
    """Rows of raw values by the names of the columns; other fields of a row are not shown, and are part of the
    JSON. `note` says what is missing."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    heading: str = ""
    note: str = ""
    empty: str = "nothing here"

    @property
    def known_columns(self) -> list[Column]:
        """Those that have a value in a row."""
        if not self.rows:
            return list(self.columns)
        return [
            column for column in self.columns if any(row.get(column.name) not in (None, "") for row in self.rows)
        ]

    def cell(self, row: Mapping[str, Any], column: Column) -> Cell:
        raw = row.get(column.name)
        text = "-" if raw in (None, "") else SHOWN[column.kind](raw)
        style = WORD_STYLES.get(text, "").replace(" ", "-") if column.kind == "word" else ""
        return Cell(text, str(row.get(column.link) or ""), style)

    @property
    def csv(self) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        for row in self.rows:
            writer.writerow([_guarded(row.get(column.name)) for column in self.columns])
        return file.getvalue()


def _guarded(raw: Any) -> Any:
    """A text that a spreadsheet would run as a formula begins with an apostrophe."""
    return f"'{raw}" if isinstance(raw, str) and raw[:1] in ("=", "+", "-", "@", "\t", "\r") else raw


def is_word(column: Column) -> bool:
    return column.kind in WORDS
