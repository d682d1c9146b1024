"""A table that fits its console: closer columns, folded names, and then fewer columns, but no figure is ever cut.

Our own, because rich shrinks every column that it may, down to one character, and cuts those that it may not.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

Cell = str | Text
# Where a text is folded: between its words and the parts of a key, and only if one of these is too long within it.
STRONG, WEAK = re.compile(r"(?<=[ :/,])"), re.compile(r"(?<=[_.=-])")
# Stands for the blanks that belong to a figure.
_GLUE = "\xa0"
# A column of names need not be wider than this for their sake, and one that has to give way keeps so much.
WIDEST_WORD, NARROWEST = 24, 4


class Layout(NamedTuple):
    """Which columns are there, how wide, with how many blanks between them."""

    kept: list[int]
    widths: list[int]
    padding: int


class Sized:
    """What is made for the width of the console that shows it."""

    def __init__(self, make: Callable[[int], RenderableType]) -> None:
        self._make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self._make(options.max_width)


class FittingTable:
    """`folds` are the heads of columns that may be folded, with the width under which another column is rather
    left out; `spare` are those that may be, the least important first. What is left out stands under it."""

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
        found = self._layout(options.max_width)
        table = Table(box=None, padding=(0, found.padding, 0, 0), header_style="dim", show_edge=False)
        for i, width in zip(found.kept, found.widths, strict=True):
            justify: Literal["right", "left"] = "right" if self._heads[i] in self._right else "left"
            # As Text, in which no bracket of a name is a style.
            head = Text(fold(self._heads[i], width))
            table.add_column(head, justify=justify, no_wrap=True, overflow="fold")
        for row in self._rows:
            cells = zip(found.kept, found.widths, strict=True)
            table.add_row(*(Text(fold(cell, w)) if isinstance(cell := row[i], str) else cell for i, w in cells))
        yield table
        gone = [_one_line(head) for i, head in enumerate(self._heads) if head and i not in found.kept]
        if gone:
            yield Text(f"  no room for: {', '.join(gone)}", style="dim")

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
        asked = self._folds.get(self._heads[column])
        if asked is None:
            return natural
        texts = [self._heads[column], *(_plain(row[column]) for row in self._rows)]
        word = max(len(part) for text in texts for part in STRONG.split(text))
        return min(natural, max(asked, min(word, WIDEST_WORD)))


def _spread(least: Sequence[int], natural: Sequence[int], folding: Sequence[bool], room: int) -> list[int]:
    """What room there is beyond the least, to the columns that are folded most; what is missing, from those."""
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
    """A line of text that is broken between its words, and within none of these figures."""
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


def _one_line(head: str) -> str:
    """A head that was broken into lines, whole again."""
    return re.sub(r"(?<=[:-])\n", "", head).replace("\n", " ")


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _width(cell: Cell) -> int:
    return max(map(len, _plain(cell).split("\n")))
