"""The terminal: at most 100 columns, colour only where the console has it, ASCII where there is nothing else."""

import io
import os
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tare.system.text import printable, to_ascii

WIDTH = 100
# Wider than any line of a list.
UNLIMITED = 10_000


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
