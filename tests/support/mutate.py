"""Random damage, from a seed: to bytes, and to the values of a document."""

import copy
import datetime
import random
from collections.abc import Callable
from typing import Any

from tare.errors import BadInput

# What a message may hold at most, so that the one line of the command line is one that a person reads.
MOST = 1000

TOKENS = (
    b"[", b"]", b"[[", b"{", b"}", b'"', b"'", b"=", b",", b".", b"\n", b"\0", b"\xff", b"\xc3", b"#", b"nan",
    b"-inf", b"1e999", b"-1", b"0x" + b"f" * 5000, b"9" * 5000, b"[" * 3000, b"null", b"true", b"\\u0000",
    b"\\ud800", b":", b"0", b"1",
)  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def odd_values(*, toml: bool) -> list[Any]:
    """Values of every type, most of them wrong wherever they stand."""
    both = [
        True, False, 0, 1, -1, 2, 2**31, 2**53 + 1, 2**63, 2**64, 2**200, -(2**63), 0.5, -1.0, 1e308, 1e-320,
        "", "x", "mlp", "eager", "cuda", "1.0", "2.0", "a/b", "a\nb", "é\u2028", "\0", "x" * 5000,
        [], [[]], {}, [1, "x", 2.5], {"a": 1}, {"": {}}, {"version": "1.0"}, [{}], nested(200),
    ]  # fmt: skip
    own: list[Any] = [float("nan"), float("inf"), datetime.date(2026, 1, 1), datetime.time(1), 1 << 20_000]
    return [*both, *(own if toml else [None, 10**400])]


def damaged_bytes(chance: random.Random, text: bytes) -> bytes:
    """One or a few of: a flipped bit, a cut, a token put in, a piece taken out, doubled or swapped."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at, to = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
        to = min(to, at + 12)
        match chance.randrange(6):
            case 0 if at < len(text):
                text = text[:at] + bytes([text[at] ^ 1 << chance.randrange(8)]) + text[at + 1 :]
            case 1:
                text = text[:at] if chance.random() < 0.3 else text[:at] + text[to:]
            case 2:
                text = text[:at] + chance.choice(TOKENS) + text[at:]
            case 3:
                text = text[:at] + chance.choice(TOKENS) + text[to:]
            case 4:
                text = text[:to] + text[at:]
            case _:
                words = text.split(b" ")
                a, b = chance.randrange(len(words)), chance.randrange(len(words))
                words[a], words[b] = words[b], words[a]
                text = b" ".join(words)
    return text


def damaged_document(chance: random.Random, document: Any, odd: list[Any]) -> Any:
    """A copy in which one or two values, anywhere, are replaced, removed, or joined by one of an unknown name."""
    document = copy.deepcopy(document)
    for _ in range(chance.randint(1, 2)):
        places = [place for place in _places(document) if place]
        if not places:
            return document
        *path, last = chance.choice(places)
        holder = document
        for step in path:
            holder = holder[step]
        what = chance.random()
        if what < 0.75:
            holder[last] = copy.deepcopy(chance.choice(odd))
        elif what < 0.9:
            del holder[last]
        elif isinstance(holder, dict):
            holder[chance.choice(("", "x", "siz", "a.b", "a/b", "é\n"))] = chance.choice(odd)
        else:
            holder.append(copy.deepcopy(chance.choice(odd)))
    return document


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all values; deep ones are not followed, since a document is not deep where it is valid."""
    found = [path]
    if len(path) < 8:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in items:
            found += _places(each, (*path, key))
    return found


def refuses(action: Callable[..., object], *args: object) -> bool:
    """Whether the action refused its input, in a message that the command line prints as one short line."""
    try:
        action(*args)
    except BadInput as error:
        message = " ".join(str(error).split())
        if not 0 < len(message) <= MOST:
            raise AssertionError(f"a message of {len(message)} characters: {message[:200]}") from error
        return True
    return False
