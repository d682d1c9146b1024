"""A trace's file, cut into pieces of whole events, so that memory follows the events and not the text.

JSON has no streaming reader that is fast in Python. So a cut between two events is guessed (what cannot be decoded
was guessed wrong: its brackets or quotes are open) or else found with numpy, which counts brackets and quotes.
Nothing of the text is kept.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tare.errors import BadInput, brief
from tare.trace.events import Event, decode
from tare.trace.window import CHUNK, Window

# Beyond these a file is no trace, or one that no machine that measures could hold.
LARGEST_EVENT = 64 << 20
LARGEST_TEXT = 16 << 30
MOST_EVENTS = 50_000_000

_START = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_QUOTE, _BACKSLASH = 34, 92


class Chunks:
    """Iterates over lists of events; `metadata`, all that stands beside them, is complete after the last.

    Raw texts in an event are views of a buffer that the next piece is read into: take them before it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.events = 0
        self._read = 0

    def __iter__(self) -> Iterator[list[Event]]:
        try:
            with _open(self.path) as file:
                yield from self._pieces(file)
        except OSError as error:
            reason = error.strerror or brief(error)
            raise BadInput(f"cannot read the trace {self.path}: {reason}") from None
        except (EOFError, zlib.error):
            raise BadInput(f"the trace {self.path} is truncated: its compressed data end too early") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInput(f"{self.path} is not a trace: {brief(error)}") from None

    def _pieces(self, file: io.BufferedIOBase) -> Iterator[list[Event]]:
        head, rest, bare = self._head(file)
        text = Window(rest)
        del rest
        while True:
            more = text.fill(file)
            self._count(more)
            guess = text.guess() if more else 0
            if guess:
                try:
                    events = self._decode(text, guess)
                except msgspec.DecodeError:
                    pass
                else:
                    yield events
                    text.drop(guess)
                    continue
            cut, closed = _cut(text.rest())
            if closed is not None:
                yield self._decode(text, closed)
                text.drop(closed)
                break
            if cut:
                yield self._decode(text, cut)
                text.drop(cut)
            if len(text) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: an event of more than {LARGEST_EVENT >> 20} MB")
            if not more:
                raise BadInput(f"the trace {self.path} is truncated: it ends within its list of events")
        tail = bytes(text.rest())
        while following := self._more(file):
            tail += following
            if len(tail) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: too much follows its events")
        if bare:
            if tail[1:].strip():
                raise BadInput(f"{self.path} is not a trace: something follows its list of events")
        else:
            self.metadata = _metadata(head + b"[" + tail)

    def _head(self, file: io.BufferedIOBase) -> tuple[bytes, bytes, bool]:
        """What stands before the first event, what follows it, and whether the document is a bare list."""
        text = b""
        while more := self._more(file):
            text += more
            opening = text.lstrip(b"\xef\xbb\xbf \t\r\n")
            if opening.startswith(b"["):
                return b"", opening[1:], True
            if opening and not opening.startswith(b"{"):
                break
            if found := _START.search(opening):
                return opening[: found.end() - 1], opening[found.end() :], False
            if len(text) > LARGEST_EVENT:
                break
        if not text.strip():
            raise BadInput(f"the trace {self.path} is empty")
        raise BadInput(f"{self.path} is not a trace of torch.profiler: it has no list 'traceEvents'")

    def _more(self, file: io.BufferedIOBase) -> bytes:
        data = file.read(CHUNK)
        self._count(len(data))
        return data

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > LARGEST_TEXT:
            raise BadInput(f"the trace {self.path} is larger than {LARGEST_TEXT >> 30} GB")

    def _decode(self, text: Window, end: int) -> list[Event]:
        with text.as_list(end) as events_text:
            events = decode(events_text)
        self.events += len(events)
        if self.events > MOST_EVENTS:
            raise BadInput(f"the trace {self.path} has more than {MOST_EVENTS:,} events")
        return events


def _open(path: Path) -> io.BufferedIOBase:
    file = path.open("rb")
    magic = file.read(2)
    file.seek(0)
    # By content, not by name: traces are renamed.
    if magic == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=file), buffer_size=1 << 20)
    return file


def _metadata(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    del found["traceEvents"]
    return found


def _cut(text: memoryview) -> tuple[int, int | None]:
    """For a text that begins between two events: where its last event and its list end."""
    data = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    quotes = quotes[~_escaped(data, quotes)]
    folded = data | 0x20
    brackets = np.flatnonzero((folded == 0x7B) | (folded == 0x7D))
    # Behind an odd number of quotes one is inside a string.
    brackets = brackets[np.searchsorted(quotes, brackets) % 2 == 0]
    depth = np.cumsum(np.where(folded[brackets] == 0x7B, 1, -1))
    closing = np.flatnonzero(depth < 0)
    end = int(closing[0]) if len(closing) else len(brackets)
    whole = np.flatnonzero(depth[:end] == 0)
    cut = int(brackets[whole[-1]]) + 1 if len(whole) else 0
    return cut, (int(brackets[end]) if len(closing) else None)


def _escaped(data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Which quotes stand behind an odd number of backslashes."""
    odd = np.zeros(len(quotes), dtype=bool)
    behind = np.flatnonzero((quotes > 0) & (data[np.maximum(quotes - 1, 0)] == _BACKSLASH))
    for index in behind:
        at = int(quotes[index]) - 1
        while at >= 0 and data[at] == _BACKSLASH:
            at -= 1
        odd[index] = (int(quotes[index]) - 1 - at) % 2 == 1
    return odd
