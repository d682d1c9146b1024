"""Traces in files: which files are some, and recording those of a case."""

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import Launcher
from tare.protocol.jobs import ProfileJob
from tare.protocol.messages import Counted
from tare.records.codec import TRACE
from tare.records.work import Work
from tare.rungs import get_rung
from tare.rungs.native.rung import NativeRung
from tare.system.home import make_folder, trace_paths

ENDINGS = (".json", ".json.gz")
# What the beginning of a trace holds, and no file of records.
MARKS = (TRACE, b'"schemaVersion"', b'"ph"')
# What that of a file of records holds.
OF_RECORDS = (b'"version"', b'"run"', b'"case"')
BEGINNING = 1 << 16
# Results of the parity check with which the times and traces of a rung may be compared with those of others.
COMPARABLE = ("same", "unchecked")


def names_trace(term: str) -> bool:
    """Whether a term is the name of a file, and so of a trace, where no records are expected."""
    return term.endswith(ENDINGS)


def is_trace(term: str) -> bool:
    """A file that begins like a trace; a file of records is JSON as well."""
    return names_trace(term) and any(mark in _beginning(term) for mark in MARKS)


def refuse_records(term: str) -> None:
    """A user who names a file of records where a trace belongs is told so, and not that it has no operators."""
    try:
        beginning = _beginning(term)
    except BadInput:
        # The reader of traces knows better what is wrong with it.
        return
    if not any(mark in beginning for mark in MARKS) and all(mark in beginning for mark in OF_RECORDS):
        raise BadInput(f"{term} holds records, not a trace: tare show {term}")


def _beginning(term: str) -> bytes:
    path = Path(term)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            return file.read(BEGINNING)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"cannot read {term}: {getattr(error, 'strerror', None) or error}") from None


def unseen(case: Case) -> str | None:
    """Why no profiler sees into a case's process, or None."""
    rung = get_rung(case.rung)
    if isinstance(rung, NativeRung) and rung.is_executable(case):
        return f"{case.rung} runs as an executable, which torch.profiler cannot see into"
    return None


class Profile(NamedTuple):
    trace: Path
    # Another, with the lines of source that things come from.
    stacks: Path
    # Of one step, where it was counted on the way.
    work: Work | None = None


def profile_case(
    executor: LocalExecutor,
    case: Case,
    name: str,
    stacks: bool = True,
    launcher: Launcher | None = None,
    again: bool = True,
    count: bool = False,
    gross_ns: int | None = None,
) -> Profile:
    """Records a case's two traces, or the plain one alone, kept in TARE_HOME under the record's id; those that are
    there already only if `again`. `launcher` starts the workers of another version. `count` asks for the work of a
    step, where it is recorded anyway. `gross_ns` is written into the traces."""
    if reason := unseen(case):
        raise TareError(reason)
    paths = trace_paths(name)
    wanted = paths if stacks else paths[:1]
    if not again and all(path.exists() for path in wanted):
        return Profile(*paths)
    make_folder(paths[0].parent)
    # A trace that was cut off must not look like one.
    partial = [path.with_name(f"partial-{path.name}") for path in wanted]
    cache = str(executor.cache_folder(case))
    job = ProfileJob(
        case=case,
        trace=str(partial[0]),
        stacks=str(partial[1]) if stacks else None,
        cache=cache,
        count=count and case.rung == "eager",
        gross_ns=gross_ns,
    )
    heard = executor.request(job, Options(), case.device, launcher)
    for path, written in zip(wanted, partial, strict=True):
        written.replace(path)
    return Profile(*paths, next((message.work for message in heard if isinstance(message, Counted)), None))
