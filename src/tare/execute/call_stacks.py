"""Counting stack frames: each rung makes one step in a process of its own, with the frame counter preloaded."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError, brief
from tare.execute.executor import BUILDING, WAITING, LaunchableJob, LocalExecutor
from tare.execute.parallel import run_jobs
from tare.execute.rounds import failure_of
from tare.execute.supervise import WorkerExit
from tare.measure.call_stack import choose_stack, read_stacks
from tare.protocol.jobs import FramesJob
from tare.records.call_depth import CallDepth
from tare.records.record import Failure
from tare.rungs import get_rung
from tare.rungs.native.build import executable, missing_tools
from tare.system.home import make_folder
from tare.worker.call_stack import PYTHON_FRAMES

LIBRARY = "libtare-frames.so"
NATIVE_FRAMES = "frames.json"


def build_counter(executor: LocalExecutor) -> str:
    if not sys.platform.startswith("linux"):
        raise TareError("the frame counter is a preloaded library, written for Linux")
    missing = missing_tools()
    if missing:
        raise TareError(f"the frame counter is built on first use, which needs {missing}")
    return str(executable(LIBRARY, lambda: executor.on_stage(BUILDING)))


def count_frames(
    executor: LocalExecutor,
    cases: Sequence[Case],
    counter: str,
    options: Options,
    keep: Callable[[CallDepth], None],
) -> None:
    """Counts `options.jobs` cases at a time and passes each to `keep` at once: an interruption loses none."""
    jobs: list[LaunchableJob] = []
    folders: list[tuple[Case, Path]] = []
    counted = 0

    def keep_depth(depth: CallDepth) -> None:
        nonlocal counted
        counted += 1
        keep(depth)
        executor.on_stage(f"counting frames: {counted} of {len(cases)}")

    executor.on_stage(f"counting frames: 0 of {len(cases)}")
    for case in cases:
        folder = make_folder(executor.folder("frames", case))
        report = folder / NATIVE_FRAMES
        report.unlink(missing_ok=True)
        cache = str(executor.cache_folder(case)) if get_rung(case.rung).caches else None
        job = FramesJob(case=case, folder=str(folder), cache=cache)
        launchable = executor.for_rung(job, options, {"LD_PRELOAD": counter, "TARE_FRAMES": str(report)})
        if isinstance(launchable, Failure):
            keep_depth(CallDepth(case=case, failure=launchable))
        else:
            jobs.append(launchable)
            folders.append((case, folder))

    def finished(at: int, worker_exit: WorkerExit) -> None:
        case, folder = folders[at]
        failure = failure_of(worker_exit, options.timeout)
        if failure is None and not (folder / NATIVE_FRAMES).exists():
            message = "the worker did not mark the user's call (docs/protocol.md)"
            failure = Failure(cause="no-result", message=message)
        keep_depth(CallDepth(case=case, failure=failure) if failure else _read_depth(case, folder))

    run_jobs(jobs, options, finished, lambda: executor.on_stage(WAITING))


def _read_depth(case: Case, folder: Path) -> CallDepth:
    try:
        stacks, unwatched = read_stacks(folder / NATIVE_FRAMES, folder / PYTHON_FRAMES)
    except (OSError, IndexError, msgspec.MsgspecError) as error:
        message = f"what the counter wrote cannot be read: {brief(error)}"
        return CallDepth(case=case, failure=Failure(cause="no-result", message=message))
    chosen = choose_stack(stacks)
    if chosen is None:
        return CallDepth(case=case, unwatched=unwatched)
    depths = [stack.total for stack in stacks if stack.anchored and stack.kind == chosen.kind]
    return CallDepth(
        case=case, stack=chosen, calls=len(depths), least=min(depths), most=max(depths), unwatched=unwatched
    )
