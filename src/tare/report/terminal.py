"""The terminal: at most 100 columns, colour only where the console has it, ASCII where there is nothing else.

Ladders are shown here, and what several views share: titles, keys of cases, environments, skipped cases.
"""

import io
import os
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.report.ladder import Ladder, Row
from tare.report.numbers import duration, ratio, seconds, short_size
from tare.report.table import FittingTable, Sized, fold
from tare.stats.intervals import Interval
from tare.system.text import one_line, printable, to_ascii

WIDTH = 100
# Wider than any line of a list.
UNLIMITED = 10_000
HEADS = (
    "rung", "gross", "net", "tare", "latency", "x eager", "x best", "prepare", "warm", "host", "device", "parity",
)  # fmt: skip
# Dropped first on a narrow terminal. The parity stays: no figure may be read without it.
SPARE = ("warm", "x best", "host", "prepare", "device", "latency", "net", "x eager")
PARITY = {"same": "same", "different": "DIFFERENT", "nan": "NAN", "unchecked": "unchecked"}
STYLE = {"same": "green", "different": "bold red", "nan": "bold red", "unchecked": "yellow"}


class _Console(Console):
    """Shows no control character of a text that came from outside, and only ASCII where there is nothing else."""

    @property
    def encoding(self) -> str:
        return "ascii" if _is_ascii_only() else super().encoding

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        ascii_only = not self.encoding.startswith("utf")
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or (text.isprintable() and not ascii_only):
                yield segment
            else:
                text = "\n".join(map(printable, text.split("\n")))
                yield Segment(to_ascii(text) if ascii_only else text, style, control)


def _is_ascii_only() -> bool:
    """Whether the user asked for the C locale. Python then writes UTF-8 nevertheless (PEP 540)."""
    chosen = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    return chosen in ("C", "POSIX")


def make_console(stderr: bool = False, whole_lines: bool = False) -> Console:
    """A console of at most 100 columns; on a pipe or a file it is plain text. Brackets and colons are part of a
    name (kernels have such), never a style or an emoji. With `whole_lines` nothing is folded or dropped off a
    terminal, so that `grep` finds every name."""
    console = _Console(stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False)
    if console.is_terminal:
        console.width = min(console.width, WIDTH)
    else:
        console.width = UNLIMITED if whole_lines else WIDTH
    return console


def plain_text(view: RenderableType) -> str:
    """The view as a console would show it, for a file."""
    console = _Console(file=io.StringIO(), width=WIDTH, highlight=False, no_color=True, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(view)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def key_text(key: str, style: str = "") -> RenderableType:
    """A case's key, whole. One that is too long for a line goes on at its last part, or wherever parts meet."""
    return Sized(lambda width: Text(_key_lines(key, width), style=style))


def _key_lines(key: str, width: int) -> str:
    head, _, tail = key.rpartition("/")
    if len(key) <= width:
        return key
    if head and max(len(head) + 1, len(tail) + 4) <= width:
        return f"{head}/\n    {tail}"
    return fold(key, max(width - 4, 1)).replace("\n", "\n    ")


def note_text(note: str) -> RenderableType:
    """A note under a table; its further lines are indented like its first."""
    return Padding(Text(f"note: {note}", style="yellow"), (0, 0, 0, 2), expand=False)


def title(case: Case, batch: str = "") -> str:
    """What a ladder is of. `batch` stands for one that is not known yet."""
    sizes = " ".join(f"{name}={value}" for name, value in case.sizes.items())
    fixed = (case.workload, case.mode, case.device, case.precision, batch or f"batch {case.batch}", sizes)
    return " · ".join(part for part in (*fixed, case.optimizer, *case_settings(case)) if part)


def case_settings(case: Case) -> list[str]:
    """Layout, feed and threads, where they are not the default."""
    settings: list[str] = [case.layout] if case.layout != "contiguous" else []
    settings += [f"feed {case.feed}"] if case.feed != "device" else []
    return [*settings, f"{case.threads} threads"] if case.threads else settings


def planned_view(ladder: Sequence[Case], batch: str = "") -> RenderableType:
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
    if ladder.optimised:
        parts.append(Text(f"  {one_line(ladder.optimised)}", style="dim"))
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


def skipped_view(skipped: Iterable[Skip], by_default: Mapping[str, str] | None = None) -> RenderableType:
    """What a run does not measure: skipped cases by reason, and rungs that a ladder holds only if named."""
    rungs: dict[str, list[str]] = {}
    for skip in skipped:
        rungs.setdefault(f"{skip.cause}: {skip.reason}", []).append(skip.key.split("/")[1])
    lines = [f"{sum(map(len, rungs.values()))} skipped"] if rungs else []
    lines += [f"  {', '.join(sorted(set(names)))}: {reason}" for reason, names in rungs.items()]
    lines += [f"  {name} skipped: {reason}" for name, reason in (by_default or {}).items()]
    return Text("\n".join(lines), style="dim")


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
        "-" if row.net_s is None else f"{'<' if row.net_is_upper_bound else ''}{_part(row.gross, row.net_s)}",
        "-" if row.tare_s is None else f"{_part(row.gross, row.tare_s)} {row.tare_share or 0:.0%}",
        duration(row.latency._replace(sound=False)) if row.latency else "-",
        ratio(row.speedup_over_eager, row.speedup_noise),
        ratio(row.speed_of_best, row.best_noise),
        seconds(row.prepare_cold_s),
        seconds(row.prepare_warm_s),
        short_size(row.host_bytes),
        short_size(row.device_bytes),
        PARITY[row.parity],
    ]


def _part(step: Interval, value: float) -> str:
    """A part of a step, with as many digits as the step's own noise allows."""
    half = (step.high - step.low) / 2
    return duration(step._replace(low=value - half, mid=value, high=value + half, sound=False))
