"""Trace files: recognising them, and recording the traces of a case."""

from pathlib import Path

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.findings.context import Context
from tare.protocol.jobs import ProfileJob
from tare.protocol.messages import Profiled
from tare.records.codec import TRACE, names_file
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.system.bounded_files import UNPACKING_ERRORS
from tare.system.home import make_folder, trace_paths
from tare.trace.metadata import recorded_gross
from tare.trace.read import read
from tare.trace.stream import open_trace
from tare.trace.windows import select_steps

# One of these is near the start of every trace, and of no file of records; all of those below are near its start.
TRACE_KEYS = (TRACE, b'"schemaVersion"', b'"ph"')
RECORD_KEYS = (b'"version"', b'"run"', b'"case"')
HEAD_BYTES = 1 << 16


def is_trace(term: str) -> bool:
    """Whether a file begins like a trace. A file of records is JSON too."""
    return names_file(term) and any(key in _read_head(term) for key in TRACE_KEYS)


def refuse_records(term: str) -> None:
    """Raises BadInput for a file of records where a trace is expected."""
    try:
        head = _read_head(term)
    except BadInput:
        # The trace reader has the better error message.
        return
    if not any(key in head for key in TRACE_KEYS) and all(key in head for key in RECORD_KEYS):
        raise BadInput(f"{term} holds records, not a trace: tare show {term}")


def _read_head(term: str) -> bytes:
    try:
        with open_trace(Path(term)) as file:
            return file.read(HEAD_BYTES)
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
