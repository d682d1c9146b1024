"""A trace with our annotations in place, for Perfetto or chrome://tracing: why idle, and the findings.

The original text is copied as it is, in pieces, and our events are put at the front of its list: memory does not
follow the trace's size, and nothing that tare does not understand is lost.
"""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from tare.errors import BadInput
from tare.findings.finding import Finding
from tare.report.files import replacing
from tare.trace.host import CAUSES, host_events
from tare.trace.idle import cut_gaps, describe
from tare.trace.tables import Trace
from tare.trace.windows import main_device, windows

# A process of our own, above the others; no real process has this number.
PROCESS = 2_000_000_000
IDLE_TRACK, FIRST_FINDING_TRACK = 1, 10
PIECE = 1 << 20
# The list of events begins within this much text.
HEAD = 64 << 20
_LIST = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[|\A\s*(?:\xef\xbb\xbf)?\s*\[')


def write_annotated(trace: Trace, source: Path, target: Path, findings: Sequence[Finding]) -> int:
    """Writes the trace in `source` with annotations to `target` (compressed if its name ends in .gz); how many."""
    events = [*_idle(trace), *_findings(trace, findings)]
    text = b",".join(json.dumps(event, separators=(",", ":")).encode() for event in [*_names(findings), *events])
    try:
        with replacing(target) as partial, _open(source) as original, _create(partial, target) as copy:
            _splice(original, copy, text, source)
    except OSError as error:
        raise BadInput(f"cannot write {target} from {source}: {error.strerror or error}") from None
    return len(events)


def _splice(original: IO[bytes], copy: IO[bytes], text: bytes, source: Path) -> None:
    head = b""
    while (found := _LIST.search(head)) is None:
        more = original.read(PIECE)
        if not more or len(head) > HEAD:
            raise BadInput(f"{source} is not a trace of torch.profiler: it has no list 'traceEvents'")
        head += more
    rest = head[found.end() :]
    while not rest.strip() and (more := original.read(PIECE)):
        rest += more
    empty = rest.lstrip().startswith(b"]")
    copy.write(head[: found.end()] + b"\n" + text + (b"" if empty else b",") + rest)
    while more := original.read(PIECE):
        copy.write(more)


def _names(findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    yield _meta("process_name", 0, {"name": "tare"})
    yield _meta("process_sort_index", 0, {"sort_index": -1})
    yield _meta("thread_name", IDLE_TRACK, {"name": "why the device is idle"})
    for index, finding in enumerate(findings):
        yield _meta("thread_name", FIRST_FINDING_TRACK + index, {"name": f"finding: {finding.rule}"})


def _meta(name: str, track: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": PROCESS, "tid": track, "args": args}


def _idle(trace: Trace) -> Iterator[dict[str, Any]]:
    """One event a piece of a gap, named by its cause; neighbours of one cause and place are one."""
    device = main_device(trace)
    if device is None:
        return
    host = host_events(trace)
    _, pieces = cut_gaps(trace, device, windows(trace, device), host)
    texts, where = describe(trace, host, pieces)
    order = np.argsort(pieces.start, kind="stable")
    columns = (pieces.start, pieces.end, pieces.cause, where, pieces.gap)
    open_: list[int] = []
    for start, end, cause, place, gap in zip(*(column[order].tolist() for column in columns), strict=True):
        if open_ and open_[1] == start and open_[2:] == [cause, place, gap]:
            open_[1] = end
            continue
        if open_:
            yield _piece(open_, texts)
        open_ = [start, end, cause, place, gap]
    if open_:
        yield _piece(open_, texts)


def _piece(piece: list[int], texts: list[str]) -> dict[str, Any]:
    start, end, cause, place, _ = piece
    return _event(CAUSES[cause], start, end, IDLE_TRACK, {"where": texts[place]})


def _findings(trace: Trace, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """What has no place of its own is true of the whole step, and shown over each."""
    steps = [(start, end) for start, end in windows(trace, main_device(trace))[:, 1:3].tolist() if end > start]
    for index, finding in enumerate(findings):
        args: dict[str, Any] = {"summary": finding.summary, "remedy": finding.remedy, "severity": finding.severity}
        if finding.saving_s is not None:
            args["saves a step"] = f"{finding.bound} {finding.saving_s * 1e6:.1f} µs".strip()
        for start, end in finding.spans or steps:
            yield _event(finding.rule, start, end, FIRST_FINDING_TRACK + index, args)


def _event(name: str, start: int, end: int, track: int, args: dict[str, Any]) -> dict[str, Any]:
    """Times of the trace's own clock, in the microseconds of the format.

    A trace's clock may count since 1970: a float then has steps of half a nanosecond. The duration is what leads
    from the start as written to the end as written, so that neighbours touch in any viewer and never overlap."""
    begin = start / 1000
    times = {"ts": begin, "dur": end / 1000 - begin}
    return {"ph": "X", "cat": "tare", "name": name, "pid": PROCESS, "tid": track} | times | {"args": args}


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if packed else path.open("rb")


def _create(path: Path, target: Path) -> IO[bytes]:
    if target.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "wb", compresslevel=6))
    return path.open("wb")
