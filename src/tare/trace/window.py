"""A window on a file: the text between two events, read into one buffer that is used again and again."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase

CHUNK = 1 << 17
# How far from the end of the window to look for the end of an event.
GUESS = 1 << 16
# How writers of traces separate two events.
BETWEEN = (b"},\n", b'},{"ph"', b'},{"name"', b'}, {"')
_BLANK = b" \t\r\n,"


class Window:
    """The text from the first event that was not taken yet, up to where the file was read.

    Copying a gigabyte of text piece by piece takes as long as decoding it: so an event's text never moves but for
    the last of a window, and the brackets that make a list of events are written where the commas were.
    """

    def __init__(self, text: bytes) -> None:
        # One byte for the bracket before the first event, and one for that behind the last.
        self._start, self._end = 1, 1 + len(text)
        self._buffer = bytearray(2 + max(2 * CHUNK, len(text) + CHUNK))
        self._buffer[1 : self._end] = text

    def __len__(self) -> int:
        return self._end - self._start

    def rest(self) -> memoryview:
        return memoryview(self._buffer)[self._start : self._end]

    def fill(self, file: BufferedIOBase) -> int:
        """Reads on; 0 at the file's end."""
        kept = bytes(self.rest())
        if len(self._buffer) < 2 + len(kept) + CHUNK:
            # Not resized: what was decoded may still hold views of it.
            self._buffer = bytearray(2 * len(self._buffer))
        self._start, self._end = 1, 1 + len(kept)
        self._buffer[1 : self._end] = kept
        count = file.readinto(memoryview(self._buffer)[self._end : self._end + CHUNK])
        self._end += count
        return count

    def guess(self) -> int:
        """Where, counted from the window's start, its last event may end; 0 where nothing looks like an end."""
        first = max(self._end - GUESS, self._start)
        for between in BETWEEN:
            found = self._buffer.rfind(between, first, self._end)
            if found >= 0:
                return found + 1 - self._start
        return 0

    @contextmanager
    def as_list(self, end: int) -> Iterator[memoryview]:
        """The text up to `end` as a JSON list."""
        buffer, first, last = self._buffer, self._start, self._start + end
        while first < last and buffer[first] in _BLANK:
            first += 1
        while last > first and buffer[last - 1] in _BLANK:
            last -= 1
        before, after = buffer[first - 1], buffer[last]
        buffer[first - 1], buffer[last] = b"[]"
        try:
            yield memoryview(buffer)[first - 1 : last + 1]
        finally:
            buffer[first - 1], buffer[last] = before, after

    def drop(self, end: int) -> None:
        """The text up to `end` is done with."""
        self._start += end
