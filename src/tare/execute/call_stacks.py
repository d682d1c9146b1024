"""Counting stack frames: each rung makes one step in a process of its own, with the frame counter preloaded."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import TareError, brief
from tare.execute.executor import BUILDING, LocalExecutor
from tare.execute.launch import Launcher
from tare.execute.parallel import worker_threads
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, run_worker
from tare.measure.call_stack import choose_stack, read_stacks
from tare.protocol.jobs import FramesJob
from tare.records.call_depth import CallDepth
from tare.records.record import Failure
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
    executor: LocalExecutor, cases: Sequence[Case], counter: str, options: Options
) -> Iterator[CallDepth]:
    """Counts `options.jobs` cases at a time, and yields each at once: an interruption loses none."""
    jobs: list[tuple[FramesJob, Launcher]] = []
    for case in cases:
        folder = make_folder(executor.folder("frames", case))
        report = folder / NATIVE_FRAMES
        report.unlink(missing_ok=True)
        worker = executor.rung_worker(case, options, {"LD_PRELOAD": counter, "TARE_FRAMES": str(report)})
        if isinstance(worker, Failure):
            yield CallDepth(case=case, failure=worker)
        else:
            cache = executor.cache_folder(case)
            job = FramesJob(case=case, folder=str(folder), cache=cache, stage=worker.stage)
            jobs.append((job, worker.launcher))
    with worker_threads(executor, options.jobs) as (pool, check):
        supervision = Supervision(options.timeout, options.memory, on_tick=check)
        futures = {pool.submit(run_worker, launcher, job, supervision): job for job, launcher in jobs}
        executor.on_stage(f"counting frames: 0 of {len(futures)}")
        for counted, future in enumerate(as_completed(futures), 1):
            executor.on_stage(f"counting frames: {counted} of {len(futures)}")
            job = futures[future]
            yield _read_depth(job.case, Path(job.folder), failure_of(future.result()))


def _read_depth(case: Case, folder: Path, failure: Failure | None) -> CallDepth:
    if failure is None and not (folder / NATIVE_FRAMES).exists():
        message = "the worker did not mark the user's call (docs/protocol.md)"
        failure = Failure(cause="no-result", message=message)
    if failure:
        return CallDepth(case=case, failure=failure)
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
