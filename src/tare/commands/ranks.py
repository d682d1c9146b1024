"""Trace files as the ranks of one job, and folders as the traces in them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tare.commands.traces import refuse_records
from tare.errors import BadInput
from tare.trace.collectives import rank_of
from tare.trace.formats import JSON_ENDINGS, trace_endings
from tare.trace.formats.xplane import XPlaneProfile
from tare.trace.job import RankJob, explain_job, rank_numbers
from tare.trace.read import read, read_ranks
from tare.trace.tables import Trace
from tare.trace.windows import select_steps

# A folder with more traces is not read: every rank of a job is held in memory.
MOST_FILES = 512


def trace_files(target: str) -> list[str]:
    """The traces in a folder, by name; in a log folder of JAX or TensorFlow those of its newest run. BadInput
    where there is none."""
    try:
        folder = _newest_run(Path(target))
        paths = [path for path in folder.iterdir() if path.is_file() and path.name.endswith(trace_endings())]
    except OSError as error:
        raise BadInput(f"cannot read the folder {target}: {error.strerror or error}") from None
    if any(path.name.endswith(XPlaneProfile.endings) for path in paths):
        # JAX writes the same events as a Chrome trace, and for Perfetto once more.
        paths = [path for path in paths if not path.name.endswith(JSON_ENDINGS)]
    names = sorted(map(str, paths))
    if not names:
        raise BadInput(f"the folder {target} holds no trace ({', '.join(trace_endings())})")
    if len(names) > MOST_FILES:
        raise BadInput(f"the folder {target} holds {len(names)} files, more than {MOST_FILES}: name some of them")
    return names


def _newest_run(folder: Path) -> Path:
    """The folder of the newest run where these are logs for TensorBoard: plugins/profile/DATE."""
    runs = [run for run in (folder / "plugins" / "profile").glob("*") if run.is_dir()]
    return max(runs, default=folder)


def read_trace(path: str) -> Trace:
    refuse_records(path)
    return read(Path(path))


def read_job(
    paths: Sequence[str], on_file: Callable[[str], None]
) -> tuple[list[Trace], dict[str, Trace], dict[str, str]]:
    """The ranks where the files are those of one job, else none; what was read by then, by file; and why some of
    several files cannot be read.

    Files are ranks of one job if all of them have collectives and state different ranks, or none states one. A
    file of several processes that launch device work is a job by itself.
    """
    ranks: list[Trace] = []
    ready: dict[str, Trace] = {}
    broken: dict[str, str] = {}
    for path in paths:
        on_file(path)
        try:
            refuse_records(path)
            traces = read_ranks(Path(path))
        except BadInput as error:
            if len(paths) == 1:
                raise
            broken[path] = str(error)
            continue
        ranks += traces
        ready[path] = traces[0]
        if len(traces) == 1 and not traces[0].communicates.any():
            # Several traces that are no job are read one after the other.
            return [], ready, broken
    stated = {rank_of(trace.metadata) for trace in ranks}
    if len(ranks) < 2 or (stated != {None} and (None in stated or len(stated) < len(ranks)) and len(paths) > 1):
        return [], ready, broken
    return ranks, {}, broken


def explain_ranks(ranks: Sequence[Trace]) -> tuple[RankJob, Trace]:
    """The job, and the trace of the rank to show in full."""
    job = explain_job(ranks)
    return job, select_steps(ranks[rank_numbers(ranks).index(job.shown)])
