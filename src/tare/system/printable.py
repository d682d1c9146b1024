"""A stranger's text for a terminal, a table or an SVG, none of which may take orders from it."""

# Unicode's own sign for what cannot be shown; a question mark may well be part of a name.
REPLACEMENT = "\ufffd"


def printable(text: str, longest: int | None = None) -> str:
    """The text, cut to a length, with a sign in the place of every character that would steer what shows it."""
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else REPLACEMENT for c in text)


def one_line(text: str) -> str:
    """The same without its line ends, where a further line could pass for one of ours: a row, a note, an error."""
    return printable(" ".join(text.split()))


def beginning(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def ending(text: str, longest: int) -> str:
    """Of a place or a case's name, which says more than the beginning."""
    return text if len(text) <= longest else "…" + text[-longest + 1 :]
