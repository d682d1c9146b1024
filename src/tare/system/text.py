"""Text from outside (records, traces, error messages) made safe for a terminal, a table or an SVG.

Such text must not steer what shows it: an escape sequence in a kernel's name could clear the screen, and a newline
could pass for a row of ours. Rich removes only a few control characters, and no escape sequence.
"""

# Unicode's own sign for what cannot be shown; a question mark may well be part of a name.
REPLACEMENT = "\ufffd"
# What our tables and charts print beyond ASCII, for terminals that have nothing else.
_ASCII = str.maketrans(
    {"µ": "u", "±": "+-", "·": "-", "…": "...", "→": "->", "×": "x", "°": "", "█": "#", "▏": "|", "─": "-"}
    | {"│": "|", "•": "*", "≥": ">=", "≤": "<=", "≈": "~", "–": "-", "\ufffd": "?", "━": "-", "╸": "-", "╺": "-"}
    | dict.fromkeys("▉▊▋▌▍▎▓▇▆▅", "#")
    | dict.fromkeys("▒░▄▃▂▁", ".")
)


def printable(text: str, longest: int | None = None) -> str:
    """The text, cut to a length, with a replacement for every character that is not printable."""
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else REPLACEMENT for c in text)


def one_line(text: str) -> str:
    """The text on one printable line."""
    return printable(" ".join(text.split()))


def beginning(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def ending(text: str, longest: int) -> str:
    """For a path or a case's key, whose end says more than its beginning."""
    return text if len(text) <= longest else "…" + text[-longest + 1 :]


def to_ascii(text: str) -> str:
    """`us` for µs, `+-` for ±, `#` for a bar; a question mark for what has no such equivalent."""
    return text if text.isascii() else text.translate(_ASCII).encode("ascii", "replace").decode()
