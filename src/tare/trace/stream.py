"""A trace file as a stream of event lists, so that memory grows with the events and not with the text.

No streaming JSON reader is fast in Python. So the text is decoded in chunks of whole events. Where a chunk
ends is guessed from the separators that trace writers use; a wrong guess cannot be decoded, and then numpy
finds the end by counting brackets and quotes.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from tare.errors import BadInput, brief
from tare.system.bounded_files import UNPACKING_ERRORS, BoundedFile
from tare.trace.events import Event, decode

# Beyond these limits a file is no trace.
LARGEST_EVENT = 8 << 20
LARGEST_TEXT = 16 << 30
MOST_EVENTS = 50_000_000
# Metadata may come before the events.
LARGEST_HEAD = 64 << 20
CHUNK = 1 << 17

_SEPARATORS = (b"},\n", b'},{"ph"', b'},{"name"', b'}, {"')
# A list of events, or the key of one in a document. The blanks behind the key are few, so that the search is
# linear.
_LIST = re.compile(rb"\s*\[")
_KEY, _AFTER_KEY = b'"traceEvents"', re.compile(rb"\s{0,256}:\s{0,256}\[")
LONGEST_KEY = 600
_BLANK = b" \t\r\n,"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


E = TypeVar("E")


class JsonStream(Generic[E]):
    """Iterates over lists of events, which `decode` makes of the text of a list. `metadata`, everything beside the
    events, is complete after the last list."""

    def __init__(self, path: Path, decode: Callable[[bytes], list[E]]) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.events = 0
        self._decode_list = decode

    def __iter__(self) -> Iterator[list[E]]:
        try:
            with open_trace(self.path) as file:
                yield from self._lists(file)
        except OSError as error:
            reason = error.strerror or brief(error)
            raise BadInput(f"cannot read the trace {self.path}: {reason}") from None
        except UNPACKING_ERRORS:
            raise BadInput(f"the trace {self.path} is truncated: its compressed data end too early") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInput(f"{self.path} is not a trace: {brief(error)}") from None

    def _lists(self, file: BoundedFile) -> Iterator[list[E]]:
        head, text = self._read_head(file)
        complete = False
        while not complete:
            more = self._read_more(file, text)
            text += more
            end = _guess_end(text)
            try:
                events = self._decode(text, end)
            except msgspec.DecodeError:
                end = 0
            if end == 0:
                end, complete = _find_end(text)
                events = self._decode(text, end)
            yield events
            text = text[end:]
            if not complete and len(text) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: an event of more than {LARGEST_EVENT >> 20} MB")
            if not complete and not more and end == 0:
                raise BadInput(f"the trace {self.path} is truncated: it ends within its list of events")
        tail = text + file.read(LARGEST_EVENT)
        if len(tail) > LARGEST_EVENT:
            raise BadInput(f"{self.path} is not a trace: too much follows its events")
        document = msgspec.json.decode(head + tail)
        if isinstance(document, dict):
            del document["traceEvents"]
            self.metadata = document

    def _read_head(self, file: BoundedFile) -> tuple[bytes, bytes]:
        """The text up to the bracket that begins the list of events, and text after it."""
        text, searched = b"", 0
        while len(text) <= LARGEST_HEAD and (more := self._read_more(file, text)):
            text = (text + more).removeprefix(_BYTE_ORDER_MARK)
            if end := find_list(text, searched):
                return text[:end], text[end:]
            searched = len(text)
        if not text.strip():
            raise BadInput(f"the trace {self.path} is empty")
        raise BadInput(f"{self.path} is not a trace of torch.profiler: it has no list 'traceEvents'")

    def _read_more(self, file: BoundedFile, text: bytes) -> bytes:
        """The text that follows. It doubles what did not suffice, so that the time stays linear."""
        return file.read(max(CHUNK, len(text)))

    def _decode(self, text: bytes, end: int) -> list[E]:
        """The events up to `end`, without the comma before the first and one after the last."""
        start = 0
        while start < end and text[start] in _BLANK:
            start += 1
        while end > start and text[end - 1] in _BLANK:
            end -= 1
        events = self._decode_list(b"".join((b"[", memoryview(text)[start:end], b"]")))
        self.events += len(events)
        if self.events > MOST_EVENTS:
            raise BadInput(f"the trace {self.path} has more than {MOST_EVENTS:,} events")
        return events


class EventStream(JsonStream[Event]):
    """The events of torch.profiler."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, decode)


def open_trace(path: Path) -> BoundedFile:
    return BoundedFile(path, LARGEST_TEXT)


def find_list(text: bytes, searched: int) -> int:
    """The end of the bracket that begins the list of events, or 0. Up to `searched` there was none: only a key
    across that border is searched again, so that the time stays linear."""
    begin = len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    if not text[begin:searched].strip() and (match := _LIST.match(text, begin)):
        return match.end()
    at = text.find(_KEY, max(searched - LONGEST_KEY, 0))
    while at >= 0:
        # An escaped quote is a part of a text.
        if text[at - 1 : at] != b"\\" and (match := _AFTER_KEY.match(text, at + len(_KEY))):
            return match.end()
        at = text.find(_KEY, at + 1)
    return 0


def _guess_end(text: bytes) -> int:
    """The probable end of the last whole event; 0 if none is found."""
    # Only near the end of the text, so that a chunk is searched once.
    ends = (text.rfind(separator, -CHUNK // 2) + 1 for separator in _SEPARATORS)
    return next((end for end in ends if end), 0)


def _find_end(text: bytes) -> tuple[int, bool]:
    """The end of the list of events and True, or the end of the last whole event and False.

    The text starts between two events.
    """
    # An escaped quote does not end a string, and an escaped backslash escapes nothing.
    data = np.frombuffer(text.replace(b"\\\\", b"__").replace(b'\\"', b"__"), dtype=np.uint8)
    quotes = np.flatnonzero(data == ord('"'))
    opening = (data == ord("[")) | (data == ord("{"))
    brackets = np.flatnonzero(opening | (data == ord("]")) | (data == ord("}")))
    # After an odd number of quotes the text is inside a string.
    brackets = brackets[np.searchsorted(quotes, brackets) % 2 == 0]
    depth = np.cumsum(np.where(opening[brackets], np.int8(1), np.int8(-1)), dtype=np.int32)
    if (depth < 0).any():
        return int(brackets[np.argmax(depth < 0)]), True
    ends = brackets[depth == 0]
    return int(ends[-1]) + 1 if len(ends) else 0, False
