"""A trace file as a stream of event lists, so that memory grows with the events and not with the text.

No streaming JSON reader is fast in Python. So the text is decoded in chunks of whole events. Where a chunk ends is
guessed from the separators that trace writers use; a wrong guess cannot be decoded, and then numpy finds the end
by counting brackets and quotes.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tare.errors import BadInput, brief
from tare.trace.events import Event, decode

# Beyond these limits a file is no trace.
LARGEST_EVENT = 64 << 20
LARGEST_TEXT = 16 << 30
MOST_EVENTS = 50_000_000
CHUNK = 1 << 17
# How far from the end of the buffer to look for the end of an event.
GUESS = 1 << 16

_SEPARATORS = (b"},\n", b'},{"ph"', b'},{"name"', b'}, {"')
_BLANK = b" \t\r\n,"
_START = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_QUOTE, _BACKSLASH = 34, 92


class EventStream:
    """Iterates over lists of events. `metadata`, everything beside the events, is complete after the last list.

    Raw values in an event are views of a buffer that the next chunk overwrites.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.events = 0
        self._bytes_read = 0

    def __iter__(self) -> Iterator[list[Event]]:
        try:
            with _open(self.path) as file:
                yield from self._chunks(file)
        except OSError as error:
            reason = error.strerror or brief(error)
            raise BadInput(f"cannot read the trace {self.path}: {reason}") from None
        except (EOFError, zlib.error):
            raise BadInput(f"the trace {self.path} is truncated: its compressed data end too early") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInput(f"{self.path} is not a trace: {brief(error)}") from None

    def _chunks(self, file: io.BufferedIOBase) -> Iterator[list[Event]]:
        head, text, bare_list = self._read_head(file)
        buffer = _Buffer(text)
        del text
        list_end = None
        while list_end is None:
            count = buffer.fill(file)
            self._add_bytes(count)
            end = buffer.guess_end() if count else 0
            if end:
                try:
                    events = self._decode(buffer, end)
                except msgspec.DecodeError:
                    pass
                else:
                    yield events
                    buffer.drop(end)
                    continue
            last_event_end, list_end = _find_ends(buffer.rest())
            end = last_event_end if list_end is None else list_end
            if end or list_end is not None:
                yield self._decode(buffer, end)
                buffer.drop(end)
            if list_end is None and len(buffer) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: an event of more than {LARGEST_EVENT >> 20} MB")
            if list_end is None and not count:
                raise BadInput(f"the trace {self.path} is truncated: it ends within its list of events")
        tail = bytes(buffer.rest())
        while more := self._read(file):
            tail += more
            if len(tail) > LARGEST_EVENT:
                raise BadInput(f"{self.path} is not a trace: too much follows its events")
        if not bare_list:
            self.metadata = msgspec.json.decode(head + b"[" + tail, type=dict[str, Any])
            del self.metadata["traceEvents"]
        elif tail[1:].strip():
            raise BadInput(f"{self.path} is not a trace: something follows its list of events")

    def _read_head(self, file: io.BufferedIOBase) -> tuple[bytes, bytes, bool]:
        """The text before the first event, the text after that, and whether the document is a bare list."""
        text = b""
        while more := self._read(file):
            text += more
            opening = text.lstrip(b"\xef\xbb\xbf \t\r\n")
            if opening.startswith(b"["):
                return b"", opening[1:], True
            if opening and not opening.startswith(b"{"):
                break
            if match := _START.search(opening):
                return opening[: match.end() - 1], opening[match.end() :], False
            if len(text) > LARGEST_EVENT:
                break
        if not text.strip():
            raise BadInput(f"the trace {self.path} is empty")
        raise BadInput(f"{self.path} is not a trace of torch.profiler: it has no list 'traceEvents'")

    def _read(self, file: io.BufferedIOBase) -> bytes:
        data = file.read(CHUNK)
        self._add_bytes(len(data))
        return data

    def _add_bytes(self, count: int) -> None:
        self._bytes_read += count
        if self._bytes_read > LARGEST_TEXT:
            raise BadInput(f"the trace {self.path} is larger than {LARGEST_TEXT >> 30} GB")

    def _decode(self, buffer: "_Buffer", end: int) -> list[Event]:
        with buffer.as_list(end) as text:
            events = decode(text)
        self.events += len(events)
        if self.events > MOST_EVENTS:
            raise BadInput(f"the trace {self.path} has more than {MOST_EVENTS:,} events")
        return events


def _open(path: Path) -> io.BufferedIOBase:
    file = path.open("rb")
    magic = file.read(2)
    file.seek(0)
    # By content: the name may have another ending.
    if magic == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=file), buffer_size=1 << 20)
    return file


class _Buffer:
    """The text from the first event that was not decoded yet up to where the file was read.

    Copying a gigabyte of text takes as long as decoding it. So text moves only from the end of the buffer to its
    start, and the brackets that make a JSON list of events are written over the commas around them.
    """

    def __init__(self, text: bytes) -> None:
        # One byte for the bracket before the first event, and one for the bracket after the last.
        self._start, self._end = 1, 1 + len(text)
        self._bytes = bytearray(2 + max(2 * CHUNK, len(text) + CHUNK))
        self._bytes[1 : self._end] = text

    def __len__(self) -> int:
        return self._end - self._start

    def rest(self) -> memoryview:
        return memoryview(self._bytes)[self._start : self._end]

    def fill(self, file: io.BufferedIOBase) -> int:
        """Reads the next chunk; returns 0 at the end of the file."""
        kept = bytes(self.rest())
        if len(self._bytes) < 2 + len(kept) + CHUNK:
            # A new buffer, since views of the old one may still exist.
            self._bytes = bytearray(2 * len(self._bytes))
        self._start, self._end = 1, 1 + len(kept)
        self._bytes[1 : self._end] = kept
        count = file.readinto(memoryview(self._bytes)[self._end : self._end + CHUNK])
        self._end += count
        return count

    def guess_end(self) -> int:
        """The probable end of the last whole event, counted from the start of the rest; 0 if none is found."""
        first = max(self._end - GUESS, self._start)
        for separator in _SEPARATORS:
            at = self._bytes.rfind(separator, first, self._end)
            if at >= 0:
                return at + 1 - self._start
        return 0

    @contextmanager
    def as_list(self, end: int) -> Iterator[memoryview]:
        """The text up to `end` as a JSON list."""
        data, first, last = self._bytes, self._start, self._start + end
        while first < last and data[first] in _BLANK:
            first += 1
        while last > first and data[last - 1] in _BLANK:
            last -= 1
        before, after = data[first - 1], data[last]
        data[first - 1], data[last] = b"[]"
        try:
            yield memoryview(data)[first - 1 : last + 1]
        finally:
            data[first - 1], data[last] = before, after

    def drop(self, end: int) -> None:
        self._start += end


def _find_ends(text: memoryview) -> tuple[int, int | None]:
    """The end of the last whole event and, if it is there, of the list, in text that starts between events."""
    data = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    quotes = quotes[~_is_escaped(data, quotes)]
    # Brackets and braces differ in this bit only.
    folded = data | 0x20
    brackets = np.flatnonzero((folded == 0x7B) | (folded == 0x7D))
    # After an odd number of quotes the text is inside a string.
    brackets = brackets[np.searchsorted(quotes, brackets) % 2 == 0]
    depth = np.cumsum(np.where(folded[brackets] == 0x7B, 1, -1))
    closing = np.flatnonzero(depth < 0)
    count = int(closing[0]) if len(closing) else len(brackets)
    event_ends = np.flatnonzero(depth[:count] == 0)
    last_event_end = int(brackets[event_ends[-1]]) + 1 if len(event_ends) else 0
    return last_event_end, (int(brackets[count]) if len(closing) else None)


def _is_escaped(data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Which quotes follow an odd number of backslashes."""
    odd = np.zeros(len(quotes), dtype=bool)
    for index in np.flatnonzero((quotes > 0) & (data[np.maximum(quotes - 1, 0)] == _BACKSLASH)):
        at = int(quotes[index]) - 1
        while at >= 0 and data[at] == _BACKSLASH:
            at -= 1
        odd[index] = (int(quotes[index]) - 1 - at) % 2 == 1
    return odd
