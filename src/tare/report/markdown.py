"""Pieces of Markdown that several formats share."""

from collections.abc import Iterable, Sequence

from tare.system.printable import one_line

# Columns of words; all others hold figures.
WORDS = ("workload", "mode", "rung", "device", "precision", "parity", "status")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[str] = WORDS) -> str:
    lines = ["| " + " | ".join(map(escape, heads)) + " |"]
    lines.append("| " + " | ".join("---" if head in words else "---:" for head in heads) + " |")
    lines += ["| " + " | ".join(map(escape, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {escape(line)}\n" for line in lines)


def escape(text: str) -> str:
    """One line that Markdown shows as it is: a newline would end the list, a pipe or a tag would be taken."""
    return one_line(text).replace("|", "\\|").replace("<", "&lt;")
