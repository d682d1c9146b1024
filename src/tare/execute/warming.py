"""Preparing many cases side by side before anything is measured: a compiler keeps a core busy, the device idle.

What is left behind (caches, staged programs) is what a case's first process would have left, so its rounds find
everything warm. Nothing that is prepared here is timed.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.execute.jobs import Job
from tare.execute.launch import SpawnLauncher
from tare.execute.lock import machine_lock
from tare.execute.supervise import Ending, Watchman, supervise
from tare.home import home


class Abandoned(Exception):
    """The run was interrupted: nobody wants what this worker prepares."""


def warm(
    cases: Iterable[Case], executor: LocalExecutor, options: Options, tell: Callable[[str], None] = lambda _: None
) -> int:
    """Prepares `options.warm` cases at a time, and says how many succeeded; those that fail will fail again in
    their first round, which keeps the cause."""
    # Two cases that read the same files have the same job, which is done once.
    jobs = {job: case for case in cases if (job := executor.preparation(case)) is not None}
    if not jobs:
        return 0
    abandoned = threading.Event()
    # The compiler's own processes share the cores with those of the other cases.
    threads = max((os.cpu_count() or 1) // options.warm, 1)
    launcher = SpawnLauncher(variables={"TORCHINDUCTOR_COMPILE_THREADS": str(threads)})

    def prepare(job: Job) -> Ending:
        def look() -> None:
            if abandoned.is_set():
                raise Abandoned

        look()
        return supervise(launcher.launch(job), Watchman(options.timeout, options.memory, look))

    good = 0
    with machine_lock(home(), lambda: tell("waiting for another tare")), ThreadPoolExecutor(options.warm) as pool:
        tell(f"preparing ahead: 0 of {len(jobs)}")
        futures = {pool.submit(prepare, job): case for job, case in jobs.items()}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                good += executor.prepared_ahead(futures[future], future.result())
                tell(f"preparing ahead: {count} of {len(jobs)}")
        except BaseException:
            abandoned.set()
            raise
    return good
