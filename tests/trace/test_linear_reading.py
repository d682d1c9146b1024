"""The work of reading grows with the file: to refuse what is no trace, and to find what comes late in it.

The work is counted in bytes that are read, searched and decoded, not in seconds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.errors import BadInput
from tare.system.bounded_files import BoundedFile
from tare.trace import events, stream
from tare.trace.read import read

EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 1, "ts": 5, "dur": 2}'
MEGABYTE = 1 << 20
# A byte is read, searched, and decoded; for a second time where the file may be of another format.
MOST_PASSES = 10


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of bytes that were read, searched and decoded, as the reader goes."""
    done: list[int] = []

    def counting(function: Callable[..., Any], count: Callable[..., int]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            result = function(*args)
            done.append(count(result, *args))
            return result

        return counted

    searched = counting(stream.find_list, lambda _, text, since: len(text) - since)
    monkeypatch.setattr(stream, "find_list", searched)
    monkeypatch.setattr(stream, "_find_end", counting(stream._find_end, lambda _, text: len(text)))
    monkeypatch.setattr(stream, "decode", counting(events.decode, lambda _, text: len(text)))
    monkeypatch.setattr(BoundedFile, "read", counting(BoundedFile.read, lambda data, *_: len(data)))
    return done


def fill(pattern: bytes, size: int) -> bytes:
    return (pattern * (size // len(pattern) + 1))[:size]


NO_TRACES: dict[str, Callable[[int], bytes]] = {
    "a text": lambda size: fill(b"All work and no play. ", size),
    "one string": lambda size: b'{"notes": "' + fill(b"x", size) + b'"}',
    "other JSON": lambda size: b'{"records": [' + fill(b'{"a": [1, 2, 3]}, ', size)[:-1] + b"{}]}",
    "a list of numbers": lambda size: b"[" + fill(b"3.14, ", size) + b"1]",
    "a string that does not end": lambda size: b'{"traceEvents": [{"name": "' + fill(b"x", size),
    "a key without a list": lambda size: b"{" + fill(b'"traceEvents": 1, ', size),
    "a key and blanks": lambda size: fill(b'"traceEvents"' + b" " * 300, size),
    "brackets that do not end": lambda size: b'{"traceEvents": [' + fill(b'{"a": ', size),
    "nothing": lambda size: bytes(size),
}


@pytest.mark.parametrize("kind", NO_TRACES)
def test_what_is_no_trace_is_refused_with_linear_work(kind: str, tmp_path: Path, work: list[int]) -> None:
    path = tmp_path / "t.json"
    for megabytes in (2, 9):
        path.write_bytes(NO_TRACES[kind](megabytes * MEGABYTE))
        work.clear()
        with pytest.raises(BadInput):
            read(path)
        assert 0 < sum(work) <= MOST_PASSES * path.stat().st_size


@pytest.mark.parametrize("separator", [b",\n", b", ", b" , ", b",\n\n"])
def test_events_behind_large_metadata_are_found_with_linear_work(
    separator: bytes, tmp_path: Path, work: list[int]
) -> None:
    path = tmp_path / "t.json"
    events = separator.join([EVENT] * 5_000)
    for megabytes in (2, 9):
        notes = fill(b"x", megabytes * MEGABYTE)
        path.write_bytes(b'{"notes": "' + notes + b'", "traceEvents": [' + events + b"]}")
        work.clear()
        assert read(path).events == 5_000
        assert sum(work) <= MOST_PASSES * path.stat().st_size
