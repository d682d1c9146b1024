"""Trace files: recognising them, and recording the traces of a case."""

from pathlib import Path
from typing import NoReturn

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.findings.context import Context
from tare.protocol.jobs import ProfileJob
from tare.protocol.messages import Profiled
from tare.records.codec import TRACE
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.system.bounded_files import UNPACKING_ERRORS
from tare.system.home import make_folder, trace_paths
from tare.trace.formats import CONVERSIONS, find_format, read_head, trace_endings
from tare.trace.metadata import recorded_gross
from tare.trace.read import read
from tare.trace.windows import select_steps

# One of these is near the start of every trace, and of no file of records; all of those below are near its start.
TRACE_KEYS = (TRACE, b'"schemaVersion"', b'"ph"')
RECORD_KEYS = (b'"version"', b'"run"', b'"case"')
# What a message offers instead of a file that cannot be read.
READABLE = (
    "name one of torch.profiler or another Chrome trace (.json, .json.gz), an export of Nsight Systems (.sqlite), "
    "a profile of JAX or TensorFlow (.xplane.pb), or rocprof's JSON"
)


def names_trace(term: str) -> bool:
    """Whether a term on the command line names a trace: by its ending, or by how an existing file begins."""
    if term.endswith(trace_endings()):
        return True
    try:
        return Path(term).is_file() and find_format(read_head(Path(term))) is not None
    except (OSError, ValueError, *UNPACKING_ERRORS):
        return False


def is_trace(term: str) -> bool:
    """Whether a file begins like a trace. A file of records is JSON too."""
    if not names_trace(term):
        return False
    head = _read_head(term)
    return find_format(head) is not None or any(key in head for key in TRACE_KEYS)


def refuse_records(term: str) -> None:
    """Raises BadInput for a file of records where a trace is expected."""
    try:
        head = _read_head(term)
    except BadInput:
        # The trace reader has the better error message.
        return
    if not any(key in head for key in TRACE_KEYS) and all(key in head for key in RECORD_KEYS):
        raise BadInput(f"{term} holds records, not a trace: tare show {term}")


def refuse_unreadable(path: Path) -> NoReturn:
    """Raises BadInput for a file that is no trace, with what converts it where that is known."""
    if tool := CONVERSIONS.get(path.suffix):
        raise BadInput(f"{path} is read by its own tool alone: convert it with `{tool} {path}`")
    raise BadInput(f"{path} is no trace: {READABLE}")


def refuse_annotation(path: str) -> None:
    """Raises BadInput for a trace into which no tracks can be written, because it is no JSON of events."""
    if (format := find_format(_read_head(path))) is not None:
        raise BadInput(f"--annotate writes into traces in Chrome's format: {path} is one of {format.name}")


def _read_head(term: str) -> bytes:
    try:
        return read_head(Path(term))
    except (OSError, *UNPACKING_ERRORS) as error:
        raise BadInput(f"cannot read {term}: {getattr(error, 'strerror', None) or error}") from None


def unseen(case: Case) -> str | None:
    """Why torch.profiler cannot record a case, or None."""
    rung = get_rung(case.rung)
    if isinstance(rung, NativeRung) and rung.is_executable(case):
        return f"{case.rung} runs as an executable, which torch.profiler cannot see into"
    return None


def profile_case(
    executor: LocalExecutor,
    case: Case,
    name: str,
    stacks: bool = True,
    launcher: Launcher | None = None,
    again: bool = True,
    count: bool = False,
    gross_ns: int | None = None,
) -> tuple[Path, Path]:
    """Records the traces of a case, without and with stacks, in TARE_HOME under the record's id.

    Existing traces are recorded again only if `again`. `launcher` starts the workers of another version. `count`
    also counts the work of a step, on eager. It is written into the traces, and so is `gross_ns`.
    """
    if reason := unseen(case):
        raise TareError(reason)
    paths = trace_paths(name)
    recorded = paths if stacks else paths[:1]
    if not again and all(path.exists() for path in recorded):
        return paths
    make_folder(paths[0].parent)
    # A trace of an interrupted recording must not look complete.
    partial = [path.with_name(f"partial-{path.name}") for path in recorded]
    job = ProfileJob(
        case=case,
        trace=str(partial[0]),
        stacks=str(partial[1]) if stacks else None,
        cache=executor.cache_folder(case),
        count=count and case.rung == "eager",
        gross_ns=gross_ns,
    )
    executor.request(job, Profiled, Options(), launcher)
    for path, written in zip(recorded, partial, strict=True):
        written.replace(path)
    return paths


def read_context(path: Path) -> Context:
    """A trace for the rules, with the gross that it states."""
    trace = select_steps(read(path))
    gross_ns = recorded_gross(trace)
    return Context(trace, gross_ns / 1e9 if gross_ns else None)
