"""A table that fits its console: closer columns, folded names, and then fewer columns. No figure is ever cut.

Our own, because rich shrinks every column that it may, down to one character, and cuts those that it may not.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from tare.system.text import to_ascii

Cell = str | Text
# A text is folded between its words and the parts of a key, and at the weaker places only within a part too long.
STRONG, WEAK = re.compile(r"(?<=[ :/,])"), re.compile(r"(?<=[_.=-])")
# Stands for a blank that belongs to a figure.
_GLUE = "\xa0"
# A column of names is not widened beyond this for its longest word; one that has to give way keeps the second.
WIDEST_WORD, NARROWEST = 24, 4


class Layout(NamedTuple):
    """Which columns are shown, how wide, with how many blanks between them."""

    kept: list[int]
    widths: list[int]
    padding: int


class Sized:
    """A view that is made for the width of the console that shows it."""

    def __init__(self, make: Callable[[int], RenderableType]) -> None:
        self._make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self._make(options.max_width)


class FittingTable:
    """`folds` names the columns that may be folded, each with the width below which a spare column is dropped
    instead. `spare` names the columns that may be dropped, the least important first; a line under the table names
    those that were."""

    def __init__(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        *,
        right: Collection[str] = (),
        folds: Mapping[str, int] | None = None,
        spare: Sequence[str] = (),
        paddings: tuple[int, ...] = (2, 1),
    ) -> None:
        self._heads, self._rows, self._right = list(heads), rows, right
        self._folds, self._spare, self._paddings = dict(folds or {}), spare, paddings

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if options.ascii_only:
            # Before the layout: `+-` is wider than ±.
            self._rows = [[_ascii_cell(cell) for cell in row] for row in self._rows]
        layout = self._layout(options.max_width)
        table = simple_table(padding=layout.padding)
        for i, width in zip(layout.kept, layout.widths, strict=True):
            justify: Literal["right", "left"] = "right" if self._heads[i] in self._right else "left"
            # As Text, in which no bracket of a name is a style.
            table.add_column(Text(fold(self._heads[i], width)), justify=justify, no_wrap=True, overflow="fold")
        for row in self._rows:
            cells = zip(layout.kept, layout.widths, strict=True)
            table.add_row(*(Text(fold(cell, w)) if isinstance(cell := row[i], str) else cell for i, w in cells))
        yield table
        dropped = [_unfold(head) for i, head in enumerate(self._heads) if head and i not in layout.kept]
        if dropped:
            yield Text(f"  no room for: {', '.join(dropped)}", style="dim")

    def _layout(self, width: int) -> Layout:
        kept = list(range(len(self._heads)))
        natural = [max(_width(self._heads[i]), *(_width(row[i]) for row in self._rows), 1) for i in kept]
        spare = [self._heads.index(head) for head in self._spare if head in self._heads]
        while True:
            for padding in self._paddings:
                if sum(natural[i] + padding for i in kept) <= width:
                    return Layout(kept, [natural[i] for i in kept], padding)
            room = width - padding * len(kept)
            least = [self._least(i, natural[i]) for i in kept]
            if sum(least) <= room or not spare:
                folding = [self._heads[i] in self._folds for i in kept]
                return Layout(kept, _spread(least, [natural[i] for i in kept], folding, room), padding)
            kept.remove(spare.pop(0))

    def _least(self, column: int, natural: int) -> int:
        wanted = self._folds.get(self._heads[column])
        if wanted is None:
            return natural
        texts = [self._heads[column], *(_plain(row[column]) for row in self._rows)]
        word = max(len(part) for text in texts for part in STRONG.split(text))
        return min(natural, max(wanted, min(word, WIDEST_WORD)))


def simple_table(*heads: str, right: slice = slice(0), padding: int = 2) -> Table:
    """A table without lines; the columns `right` hold numbers."""
    table = Table(box=None, padding=(0, padding, 0, 0), header_style="dim", show_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=True)
    for column in table.columns[right]:
        column.justify = "right"
    return table


def fact_table(facts: Mapping[str, str]) -> Table:
    """Names and values without a head; a long value goes on in the next line."""
    table = simple_table("")
    table.add_column("", overflow="fold")
    table.show_header = False
    for name, value in facts.items():
        table.add_row(Text(name), Text(value))
    return table


def _spread(least: Sequence[int], natural: Sequence[int], folding: Sequence[bool], room: int) -> list[int]:
    """Gives what room there is to the columns that are folded most, or takes what is missing from the widest."""
    widths = list(least)
    while sum(widths) < room:
        short = [i for i in range(len(widths)) if widths[i] < natural[i]]
        if not short:
            break
        widths[max(short, key=lambda i: natural[i] / widths[i])] += 1
    while sum(widths) > room:
        wide = [i for i in range(len(widths)) if folding[i] and widths[i] > NARROWEST]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def prose(text: str, figures: Sequence[str] = (), style: str = "") -> Sized:
    """A paragraph that is broken between its words, and within none of these figures."""
    for figure in figures:
        text = text.replace(figure, figure.replace(" ", _GLUE))
    return Sized(lambda width: Text(fold(text, width).replace(_GLUE, " "), style=style))


def fold(text: str, width: int) -> str:
    """The text in lines of at most this width, broken where a reader would break it."""
    return "\n".join(line.rstrip() for given in text.split("\n") for line in _lines(given, width, (STRONG, WEAK)))


def _lines(text: str, width: int, places: Sequence[re.Pattern[str]]) -> list[str]:
    if len(text.rstrip()) <= width:
        return [text]
    if not places:
        return [text[at : at + width] for at in range(0, len(text), width)]
    lines = [""]
    for part in places[0].split(text):
        if len((lines[-1] + part).rstrip()) <= width:
            lines[-1] += part
        else:
            lines = [line for line in lines if line] + _lines(part, width, places[1:])
    return lines


def _unfold(head: str) -> str:
    return re.sub(r"(?<=[:-])\n", "", head).replace("\n", " ")


def _ascii_cell(cell: Cell) -> Cell:
    return to_ascii(cell) if isinstance(cell, str) else Text(to_ascii(cell.plain), style=cell.style)


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _width(cell: Cell) -> int:
    return max(map(len, _plain(cell).split("\n")))
