"""A trace with tracks of its own for Perfetto or chrome://tracing: why the device is idle, and the findings.

The original text is copied in chunks, and the new events are put at the front of its list. So memory does not grow
with the trace, and nothing that tare does not understand is lost.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from tare.errors import BadInput
from tare.findings.finding import Finding
from tare.report.files import replacing
from tare.system.bounded_files import BoundedFile
from tare.trace.host import CAUSES, host_events
from tare.trace.idle import cut_gaps, describe
from tare.trace.stream import find_list, open_trace
from tare.trace.tables import Trace
from tare.trace.windows import main_device, windows

# The process that the tracks belong to, shown above the others; no real process has this number.
PROCESS = 2_000_000_000
IDLE_TRACK, FIRST_FINDING_TRACK = 1, 10
CHUNK = 1 << 20
# The list of events starts within this much text.
MAX_HEAD = 64 << 20


def write_annotated(trace: Trace, source: Path, target: Path, findings: Sequence[Finding]) -> None:
    """Writes the trace in `source` with annotations to `target` (compressed if its name ends in .gz)."""
    events = [*_track_names(findings), *_idle_events(trace), *_finding_events(trace, findings)]
    text = b",".join(json.dumps(event, separators=(",", ":")).encode() for event in events)
    try:
        with replacing(target) as partial, open_trace(source) as original, _create(partial, target) as copy:
            _splice(original, copy, text, source)
    except OSError as error:
        raise BadInput(f"cannot write {target} from {source}: {error.strerror or error}") from None


def _splice(original: BoundedFile, copy: IO[bytes], text: bytes, source: Path) -> None:
    head, searched = b"", 0
    while not (opening := find_list(head, searched)):
        searched = len(head)
        chunk = original.read(max(CHUNK, len(head)))
        if not chunk or len(head) > MAX_HEAD:
            raise BadInput(f"{source} is not a trace of torch.profiler: it has no list 'traceEvents'")
        head += chunk
    rest = head[opening:]
    while not rest.strip() and (chunk := original.read(CHUNK)):
        rest += chunk
    is_empty = rest.lstrip().startswith(b"]")
    copy.write(head[:opening] + b"\n" + text + (b"" if is_empty else b",") + rest)
    while chunk := original.read(CHUNK):
        copy.write(chunk)


def _track_names(findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    tracks = {IDLE_TRACK: "why the device is idle"}
    tracks |= {FIRST_FINDING_TRACK + i: f"finding: {finding.rule}" for i, finding in enumerate(findings)}
    yield _metadata("process_name", 0, {"name": "tare"})
    yield _metadata("process_sort_index", 0, {"sort_index": -1})
    for track, name in tracks.items():
        yield _metadata("thread_name", track, {"name": name})


def _metadata(name: str, track: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": PROCESS, "tid": track, "args": args}


def _idle_events(trace: Trace) -> Iterator[dict[str, Any]]:
    """One event a segment of a gap, named by its cause; adjacent segments of one cause and place are joined."""
    device = main_device(trace)
    if device is None:
        return
    host = host_events(trace)
    _, segments = cut_gaps(trace, device, windows(trace, device), host)
    texts, place = describe(trace, host, segments)
    order = np.argsort(segments["start"], kind="stable")
    columns = (segments["start"], segments["end"], segments["cause"], place, segments["gap"])
    joined: list[list[int]] = []
    for start, end, *labels in zip(*(column[order].tolist() for column in columns), strict=True):
        if joined and joined[-1][1] == start and joined[-1][2:] == labels:
            joined[-1][1] = end
        else:
            joined.append([start, end, *labels])
    for start, end, cause, text, _ in joined:
        yield _event(CAUSES[cause], start, end, IDLE_TRACK, {"where": texts[text]})


def _finding_events(trace: Trace, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """A finding without spans is true of the whole step, and is shown over each step."""
    steps = [(start, end) for start, end in windows(trace, main_device(trace))[:, 1:3].tolist() if end > start]
    for index, finding in enumerate(findings):
        args: dict[str, Any] = {"summary": finding.summary, "remedy": finding.remedy, "severity": finding.severity}
        if finding.saving_s is not None:
            args["saving a step"] = f"{finding.bound} {finding.saving_s * 1e6:.1f} µs".strip()
        for start, end in finding.spans or steps:
            yield _event(finding.rule, start, end, FIRST_FINDING_TRACK + index, args)


def _event(name: str, start: int, end: int, track: int, args: dict[str, Any]) -> dict[str, Any]:
    """Times are in microseconds of the trace's own clock. Since that may count from 1970, a float has steps of
    half a nanosecond: the duration is the difference of both times as written, so that adjacent events never
    overlap."""
    begin = start / 1000
    times = {"ts": begin, "dur": end / 1000 - begin}
    return {"ph": "X", "cat": "tare", "name": name, "pid": PROCESS, "tid": track} | times | {"args": args}


def _create(path: Path, target: Path) -> IO[bytes]:
    if target.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "wb", compresslevel=6))
    return path.open("wb")
