"""Ladders and lists for the terminal: at most 100 columns, colour only where the console has it."""

import io
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tare.cases.case import Case
from tare.cases.grid import Skip
from tare.report.fitting import FittingTable, Sized, fold
from tare.report.ladder import Ladder, Row
from tare.report.numbers import duration, ratio, seconds, short_size
from tare.system.printable import one_line, printable

WIDTH = 100
HEADS = ("rung", "gross", "latency", "x eager", "x best", "prepare", "warm", "host", "device", "parity")
# What goes first where the terminal is narrow. Without its parity no figure may be read.
SPARE = ("warm", "x best", "prepare", "host", "device", "latency", "x eager")
PARITY = {"same": "same", "different": "DIFFERENT", "nan": "NAN", "unchecked": "unchecked"}
STYLE = {"same": "green", "different": "bold red", "nan": "bold red", "unchecked": "yellow"}


class _Console(Console):
    """Records come from strangers as well: what a message, a processor or an operator is called there must not
    steer the terminal that shows it. Rich takes only a few control characters away, and never an escape."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(printable, text.split("\n"))), style, control)


def make_console(stderr: bool = False) -> Console:
    """A console that never exceeds our width; on a pipe or a file it is plain text. What stands in brackets or
    between colons is part of a name (kernels have such), and never a style or a picture."""
    console = _Console(stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def plain_text(view: RenderableType) -> str:
    """What a console would show, for a file."""
    console = _Console(file=io.StringIO(), width=WIDTH, highlight=False, no_color=True, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(view)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def key_text(key: str, style: str = "") -> RenderableType:
    """A case's key, whole; one that is too long for a line goes on at its last part, or wherever parts meet."""
    return Sized(lambda width: Text(_key_lines(key, width), style=style))


def _key_lines(key: str, width: int) -> str:
    head, _, tail = key.rpartition("/")
    if len(key) <= width:
        return key
    if head and max(len(head) + 1, len(tail) + 4) <= width:
        return f"{head}/\n    {tail}"
    return fold(key, max(width - 4, 1)).replace("\n", "\n    ")


def note_text(note: str) -> RenderableType:
    """A note under a table; its further lines stand under its first."""
    return Padding(Text(f"note: {note}", style="yellow"), (0, 0, 0, 2), expand=False)


def title(case: Case, batch: str = "") -> str:
    """`batch` stands for one that is not known yet."""
    sizes = " ".join(f"{name}={value}" for name, value in case.sizes.items())
    extra: list[str] = [case.layout] if case.layout != "contiguous" else []
    extra += [f"feed {case.feed}"] if case.feed != "device" else []
    extra += [case.optimizer] if case.optimizer else []
    extra += [f"{case.threads} threads"] if case.threads else []
    parts = (case.workload, case.mode, case.device, case.precision, batch or f"batch {case.batch}", sizes, *extra)
    return " · ".join(part for part in parts if part)


def foreseen_view(ladder: Sequence[Case], batch: str = "") -> RenderableType:
    """A ladder that has not been measured: what it is of, and its rungs."""
    rungs = Text(f"  {', '.join(case.rung for case in ladder)}")
    return Group(Text(title(ladder[0], batch), style="bold"), rungs)


def ladder_view(ladder: Ladder) -> RenderableType:
    heads, lines = row_texts(ladder)
    parts: list[RenderableType] = [Text(title(ladder.case), style="bold"), Text(where(ladder), style="dim")]
    if lines:
        parts.append(_ladder_table(heads, lines))
    troubled = [(row.trouble, row.refused) for row in ladder.rows if row.trouble]
    parts += [Text(f"  {one_line(why)}", style="dim" if refused else "red") for why, refused in troubled]
    parts += [Text(f"  note: {one_line(note)}", style="yellow") for note in ladder.notes]
    return Group(*parts)


def _ladder_table(heads: list[str], lines: list[list[str]]) -> FittingTable:
    """Where not all columns fit they stand closer, then a variant goes under its rung, then columns go."""
    return FittingTable(
        heads,
        [[*line[:-1], Text(line[-1], style=STYLE.get(line[-1].lower(), ""))] for line in lines],
        right=HEADS[1:-1],
        folds={"rung": 0},
        spare=SPARE,
    )


def row_texts(ladder: Ladder) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of a ladder's table, without the columns that say nothing on this machine."""
    lines = [_cells(row) for row in ladder.rows if row.gross]
    kept = [i for i in range(len(HEADS)) if i == 0 or any(line[i] != "-" for line in lines)]
    return [HEADS[i] for i in kept], [[line[i] for i in kept] for line in lines]


def left_view(skipped: Iterable[Skip], left_out: Mapping[str, str]) -> RenderableType:
    """What a run does not measure: skips, and rungs that a ladder holds only if they are named."""
    lines = [Text(f"  {name} left out: {why}", style="dim") for name, why in left_out.items()]
    return Group(*([skipped_view(skips)] if (skips := list(skipped)) else []), *lines)


def skipped_view(skipped: Iterable[Skip]) -> RenderableType:
    """Skips by reason: how many, which rungs, why."""
    reasons: dict[str, set[str]] = {}
    count = 0
    for skip in skipped:
        parts = skip.key.split("/")
        reasons.setdefault(f"{skip.cause}: {skip.reason}", set()).add(parts[1])
        count += 1
    if not count:
        return Text("")
    lines = [Text(f"{count} skipped", style="dim")]
    lines += [Text(f"  {', '.join(sorted(rungs))}: {reason}", style="dim") for reason, rungs in reasons.items()]
    return Group(*lines)


def simple_table(*heads: str, right: slice = slice(0), narrow: bool = False) -> Table:
    """A table with its head and nothing else; the columns `right` are of numbers."""
    table = Table(box=None, padding=(0, 1 if narrow else 2, 0, 0), header_style="dim", show_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=True)
    for column in table.columns[right]:
        column.justify = "right"
    return table


def where(ladder: Ladder) -> str:
    """The machine and the software that a ladder was measured with."""
    machine, software = ladder.environment.machine, ladder.environment.software
    chip = machine.get("gpu") if ladder.case.device_type == "cuda" else None
    chip = chip or f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores"
    return one_line(f"{chip}, torch {software.get('torch', '?')}, python {software.get('python', '?')}")


def _cells(row: Row) -> list[str]:
    assert row.gross is not None
    return [
        row.rung,
        duration(row.gross),
        duration(row.latency._replace(sound=False)) if row.latency else "-",
        ratio(row.speedup_over_eager, row.speedup_noise),
        ratio(row.speed_of_best, row.best_noise),
        seconds(row.prepare_cold_s),
        seconds(row.prepare_warm_s),
        short_size(row.host_bytes),
        short_size(row.device_bytes),
        PARITY[row.parity],
    ]
