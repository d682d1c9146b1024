"""A view: a result as titles, lines, tables and drawings. It is built once, and shown on a terminal, as Markdown
(tare.report.formats.markdown) or as HTML (tare.report.page).

On a terminal a table fits its console: closer columns, folded names, and then fewer columns. No figure is ever
cut. The layout is our own, because rich shrinks every column that it may, down to one character, and cuts those
that it may not.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tare.system.text import beginning, ending, one_line, to_ascii

Role = Literal[
    "title", "faint", "plain", "result", "item", "aside", "note", "warning", "failure", "good", "key", "bad"
]  # fmt: skip
# What stands before a line of each role, and its style.
ROLES: dict[Role, tuple[str, str]] = {
    "title": ("", "bold"),
    "faint": ("", "dim"),
    "plain": ("", ""),
    "result": ("  ", "bold"),
    "item": ("  ", ""),
    "aside": ("  ", "dim"),
    "note": ("  note: ", "yellow"),
    "warning": ("  ", "yellow"),
    "failure": ("  ", "red"),
    "good": ("  ", "green"),
    # A case's key is shown whole, in several lines where it is too long for one.
    "key": ("", "bold"),
    "bad": ("", "bold red"),
}
# The style of a cell that is one of these words: parities, verdicts, severities and states.
WORD_STYLES = {
    **dict.fromkeys(("same", "good", "faster", "less", "vanished", "confirmed"), "green"),
    **dict.fromkeys(("DIFFERENT", "NAN", "slower", "more", "high", "refuted"), "bold red"),
    **dict.fromkeys(("unchecked", "undecided", "appeared", "medium", "not reproduced"), "yellow"),
    **dict.fromkeys(("low", "unknown", "not yet measured", "not testable here"), "dim"),
    "warn": "bold yellow",
    "gross": "bold",
}
# A text is folded between its words and the parts of a key, and at the weaker places only within a part too long.
# The unit of a figure, the noise after it and the end of an interval are no words of their own.
STRONG = re.compile(r"(?<=[ :/,])(?!±|%|[mµn]?s\b|[KMGT]?i?B\b|(?:to )?[+-]?[\d.e+-]+x?(?: %)?\))")
WEAK = re.compile(r"(?<=[_.=-])")
# A column of names is not widened beyond the first for its longest word, nor one of figures beyond the second for
# its head; a column of names that has to give way keeps the third. A head no longer than the fourth is not folded.
WIDEST_WORD, WIDEST_HEAD, NARROWEST, SHORTEST_FOLDED = 24, 10, 4, 5


class Line(NamedTuple):
    role: Role
    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        prefix, style = ROLES[self.role]
        if self.role in ("key", "bad"):
            key = fold(Text(self.text), max(options.max_width - 4, 1))
            yield Text(key.plain.replace("\n", "\n    "), style=style)
        elif not self.text:
            yield Text("")
        else:
            indent = len(prefix) - len(prefix.lstrip())
            yield Padding(Text(prefix.lstrip() + self.text, style=style), (0, 0, 0, indent), expand=False)


class Drawing(NamedTuple):
    """A picture made of characters, drawn for the width of the console or of its column in a table. `svg` draws it
    for a page."""

    draw: Callable[[int], Text]
    most: int = 100
    least: int = 8
    svg: Callable[[], str] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self.draw(min(self.most, options.max_width))


Cell = str | Text | Drawing


class FittingTable:
    """Rows of cells by the names of their columns. It has a line of heads where one of them is not blank, and is
    not shown at all without rows.

    `folds` names the columns that may be folded, each with the width below which a spare column is dropped
    instead. They are aligned to the left, as `words` are; the others hold figures. `spare` names the columns that
    may be dropped, the least important first; a line under the table names those that were. `cuts` has the longest
    text of a column on a terminal; a negative number keeps the end of a text. `heads` has the heads that are not
    the names of their columns. `svg` draws the table for a page.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Cell]],
        *,
        words: Collection[str] = (),
        folds: Mapping[str, int] | None = None,
        spare: Sequence[str] = (),
        cuts: Mapping[str, int] | None = None,
        heads: Mapping[str, str] | None = None,
        svg: Callable[[], str] | None = None,
    ) -> None:
        self.rows, self.svg = rows, svg
        self._folds, self._spare, self._cuts = folds or {}, spare, cuts or {}
        first_row = rows[0] if rows else {}
        self.heads = {name: (heads or {}).get(name, name) for name in first_row}
        drawings = (name for name, cell in first_row.items() if isinstance(cell, Drawing))
        self.words = {*words, *self._folds, *drawings}

    @property
    def sentences(self) -> set[str]:
        """The columns of words that a page may fold, but not down to a letter a line."""
        texts = {name: [str(row[name]) for row in self.rows] for name in self.heads if name in self.words}
        return {name for name, cells in texts.items() if max(map(len, cells)) > WIDEST_WORD}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = {}
        for name, head in self.heads.items():
            # ASCII before the layout: `+-` is wider than ±.
            cells = [_cut(row[name], self._cuts.get(name), options.ascii_only) for row in self.rows]
            columns[name] = _Column(head, cells, self._folds.get(name))
        if not columns:
            return
        widths, padding = self._layout(columns, options.max_width)
        table = Table(
            box=None, padding=(0, padding, 0, 0), header_style="dim", show_edge=False,
            show_header=any(head.strip() for head in self.heads.values()),
        )  # fmt: skip
        for name, width in widths.items():
            justify: Literal["right", "left"] = "left" if name in self.words else "right"
            table.add_column(fold(Text(self.heads[name]), width), justify=justify, no_wrap=True, overflow="fold")
        for i in range(len(self.rows)):
            table.add_row(*(columns[name].drawn(i, width) for name, width in widths.items()))
        yield table
        dropped = [head for name, head in self.heads.items() if head.strip() and name not in widths]
        if dropped:
            yield Text(f"  no room for: {', '.join(dropped)}", style="dim")

    def _layout(self, columns: "dict[str, _Column]", width: int) -> tuple[dict[str, int], int]:
        """Which columns are shown, how wide, with how many blanks between them."""
        kept = dict(columns)
        spare = [name for name in self._spare if name in columns]
        while True:
            for padding in (2, 1):
                if sum(column.natural + padding for column in kept.values()) <= width:
                    return {name: column.natural for name, column in kept.items()}, padding
            room = width - padding * len(kept)
            if sum(column.least for column in kept.values()) <= room or not spare:
                return _spread(kept, room), padding
            del kept[spare.pop(0)]


class _Column:
    """How wide a column is by itself, how narrow it may become, and how narrow if that is not enough. A head may
    always be folded."""

    def __init__(self, head: str, cells: list[Text | Drawing], folded_to: int | None) -> None:
        self.cells, self.has_names = cells, folded_to is not None
        drawing = next((cell for cell in cells if isinstance(cell, Drawing)), None)
        texts = [cell.plain for cell in cells if isinstance(cell, Text)]
        widest = max((len(line) for text in texts for line in text.split("\n")), default=1)
        self.natural = drawing.most if drawing else max(len(head), widest, 1)
        if folded_to is None:
            self.floor = least = drawing.least if drawing else max(widest, 1)
        else:
            self.floor = NARROWEST
            word = max(len(part.rstrip()) for text in texts for part in STRONG.split(text))
            least = min(widest, max(folded_to, min(word, WIDEST_WORD)))
        self.least = max(least, _longest_part(head))
        self.folded = max(self.natural - self.least, 0)

    def drawn(self, row: int, width: int) -> Text:
        cell = self.cells[row]
        return cell.draw(width) if isinstance(cell, Drawing) else fold(cell, width)


def _longest_part(head: str) -> int:
    if len(head) <= SHORTEST_FOLDED:
        return len(head)
    parts = [part.rstrip() for part in STRONG.split(head)]
    return max(max(map(len, WEAK.split(part))) if len(part) > WIDEST_HEAD else len(part) for part in parts)


def _spread(columns: Mapping[str, _Column], room: int) -> dict[str, int]:
    """Unfolds as many columns as there is room for, names before heads; or takes what is missing from the widest
    column."""
    widths = {name: column.least for name, column in columns.items()}
    room -= sum(widths.values())
    for name, column in sorted(columns.items(), key=lambda item: (not item[1].has_names, item[1].folded)):
        added = min(column.folded, max(room, 0))
        widths[name] += added
        room -= added
    while room < 0 and (wide := [name for name, width in widths.items() if width > columns[name].floor]):
        widths[max(wide, key=lambda name: widths[name])] -= 1
        room += 1
    return widths


def _cut(cell: Cell, longest: int | None, ascii_only: bool) -> Text | Drawing:
    if isinstance(cell, Drawing):
        return cell
    if isinstance(cell, Text):
        return Text(to_ascii(cell.plain), style=cell.style) if ascii_only else cell
    text = cell
    if longest:
        text = beginning(text, longest) if longest > 0 else ending(text, -longest)
    return Text(to_ascii(text) if ascii_only else text, style=WORD_STYLES.get(cell, ""))


def fold(text: Text, width: int) -> Text:
    """The text in lines of at most this width, broken where a reader would break it."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        lines += line.divide([*accumulate(map(len, _pieces(line.plain, width, (STRONG, WEAK))))][:-1])
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _pieces(text: str, width: int, places: Sequence[re.Pattern[str]]) -> list[str]:
    if len(text.rstrip()) <= width:
        return [text]
    if not places:
        return [text[at : at + width] for at in range(0, len(text), width)]
    pieces = [""]
    for part in places[0].split(text):
        if len((pieces[-1] + part).rstrip()) <= width:
            pieces[-1] += part
        else:
            pieces = [piece for piece in pieces if piece] + _pieces(part, width, places[1:])
    return pieces


class View:
    """The parts of a view, from top to bottom."""

    def __init__(self, title: str = "", subtitle: str = "") -> None:
        self.parts: list[Line | FittingTable | Drawing] = []
        self.add("title", title).add("faint", subtitle)

    def add(self, role: Role, *texts: str) -> Self:
        """A line for each text that is not empty. A text from a record or a trace cannot make lines of its own."""
        self.parts += [Line(role, one_line(text)) for text in texts if text]
        return self

    def facts(self, facts: Mapping[str, str]) -> Self:
        """A line for each name with its value, without those that are empty."""
        rows = [{"": name, " ": one_line(fact)} for name, fact in facts.items() if fact]
        return self.put(FittingTable(rows, words=("",), folds={" ": 0}))

    def gap(self) -> Self:
        self.parts.append(Line("plain", ""))
        return self

    def put(self, *parts: FittingTable | Drawing) -> Self:
        self.parts += parts
        return self

    def show(self, *views: "View") -> Self:
        """The parts of other views, with a blank line before each."""
        for view in views:
            if self.parts and view.parts:
                self.gap()
            self.parts += view.parts
        return self

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self.parts
