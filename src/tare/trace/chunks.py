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
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tare.errors import BadInput, brief
from tare.trace.events import Event, decode

CHUNK = 4 << 20
# How far from the end of a piece to look for the end of an event.
GUESS = 1 << 16
# Beyond these a file is no trace, or one that no machine that measures could hold.
LARGEST_EVENT = 64 << 20
LARGEST_TEXT = 16 << 30
MOST_EVENTS = 50_000_000

_START = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_QUOTE, _BACKSLASH = 34, 92
# How writers of traces separate two events.
BETWEEN = (b"},\n", b'},{"ph"', b'},{"name"', b'}, {"')


class Chunks:
    """Iterates over lists of events; `metadata`, all that stands beside them, is complete after the last."""

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

    def _pieces(self, file: IO[bytes]) -> Iterator[list[Event]]:
        head, rest, bare = self._head(file)
        while True:
            more = self._more(file)
            guess = max(rest.rfind(between, max(len(rest) - GUESS, 0)) for between in BETWEEN) + 1
            if more and guess:
                try:
                    events = self._decode(rest[:guess])
                except msgspec.DecodeError:
                    pass
                else:
                    yield events
                    rest = rest[guess:] + more
                    continue
            cut, closed = _cut(rest)
            if closed is not None:
                yield self._decode(rest[:closed])
                tail = rest[closed:] + more
                break
            if cut:
                yield self._decode(rest[:cut])
            rest = rest[cut:] + more
            if len(rest) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: an event of more than {LARGEST_EVENT >> 20} MB")
            if not more:
                raise BadInput(f"the trace {self.path} is truncated: it ends within its list of events")
        while more := self._more(file):
            tail += more
            if len(tail) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: too much follows its events")
        if bare:
            if tail[1:].strip():
                raise BadInput(f"{self.path} is not a trace: something follows its list of events")
        else:
            self.metadata = _metadata(head + b"[" + tail)

    def _head(self, file: IO[bytes]) -> tuple[bytes, bytes, bool]:
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

    def _more(self, file: IO[bytes]) -> bytes:
        data = file.read(CHUNK)
        self._read += len(data)
        if self._read > LARGEST_TEXT:
            raise BadInput(f"the trace {self.path} is larger than {LARGEST_TEXT >> 30} GB")
        return data

    def _decode(self, text: bytes) -> list[Event]:
        events = decode(b"".join((b"[", text.strip(b" \t\r\n,"), b"]")))
        self.events += len(events)
        if self.events > MOST_EVENTS:
            raise BadInput(f"the trace {self.path} has more than {MOST_EVENTS:,} events")
        return events


def _open(path: Path) -> IO[bytes]:
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


def _cut(text: bytes) -> tuple[int, int | None]:
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
