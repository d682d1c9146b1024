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

# Characters of a failed command's last lines, and of each of them, that a message quotes.
MAX_TAIL, MAX_LINE = 300, 200


def printable(text: str, longest: int | None = None) -> str:
    """The text, cut to a length, with a replacement for every character that is not printable."""
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else REPLACEMENT for c in text)


def one_line(text: str) -> str:
    """The text on one printable line."""
    return printable(" ".join(text.split()))


def encodable(text: str) -> str:
    """The text with an escape for every character that UTF-8 cannot encode (a lone surrogate)."""
    return text.encode("utf-8", "backslashreplace").decode()


def beginning(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def ending(text: str, longest: int) -> str:
    """For a path or a case's key, whose end says more than its beginning."""
    return text if len(text) <= longest else "…" + text[-longest + 1 :]


def to_ascii(text: str) -> str:
    """`us` for µs, `+-` for ±, `#` for a bar; a question mark for what has no such equivalent."""
    return text if text.isascii() else text.translate(_ASCII).encode("ascii", "replace").decode()


def last_lines(text: str) -> str:
    """The last lines of a failed command's output, joined, as far as MAX_TAIL allows. Only the beginning of a long
    line is kept: it names the error, and a list of valid values may follow for pages."""
    kept: list[str] = []
    for line in reversed([" ".join(line.split()) for line in text.splitlines() if line.strip()]):
        short = line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 4]} ..."
        if kept and len(" ".join([short, *kept])) > MAX_TAIL:
            break
        kept.insert(0, short)
    return " ".join(kept)
