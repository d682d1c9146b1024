"""Preparing many cases side by side before anything is measured: a compiler keeps a core busy, the device idle.

What is left behind (caches, staged programs, references) is what a case's first process would have left, so its
rounds find everything warm. Nothing that is prepared here is timed.
"""

from collections.abc import Callable, Iterable, Sequence

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batch_search import MEMORY
from tare.execute.concurrent import Errand, cores_each, together
from tare.execute.executor import LocalExecutor
from tare.execute.launch import SpawnLauncher
from tare.execute.rounds import failure_of
from tare.execute.schedule import ladders
from tare.execute.supervise import Ending
from tare.protocol.jobs import Job, ReferenceJob
from tare.worker.cpu_limits import COMPILERS

# So many ladders for each of those that work at a time: enough that few wait for the slowest, and so few that an
# interruption does not find much prepared and nothing measured.
LADDERS = 2


def portions(cases: Iterable[Case], at_once: int) -> list[list[Case]]:
    """Cases as they are prepared and then measured together: all of them where nothing is prepared ahead."""
    if not at_once:
        return [list(cases)]
    found, size = ladders(cases), LADDERS * at_once
    return [
        [case for ladder in found[first : first + size] for case in ladder] for first in range(0, len(found), size)
    ]


def warm(
    cases: Iterable[Case], executor: LocalExecutor, options: Options, tell: Callable[[str], None] = lambda _: None
) -> int:
    """Prepares cases side by side, as many as `options` say; returns how many succeeded. Those that fail will fail
    again in their first round, which keeps the cause. What took too long is not tried again: its round says so.
    What had no memory beside the others is compiled once more alone."""
    # Two cases that read the same files have the same job, which is done once. What compiles comes first: it takes
    # longest.
    asked = dict.fromkeys(job for case in cases for job in executor.preparations(case, options))
    jobs = sorted(asked, key=lambda job: isinstance(job, ReferenceJob))
    if not jobs:
        return 0
    good: dict[Job, bool] = {}

    def prepare(due: Sequence[Job], at_once: int) -> list[Job]:
        """Returns what had no memory beside the others."""
        launcher = SpawnLauncher(variables={COMPILERS: str(cores_each(at_once))})
        crowded: list[Job] = []

        def ended(at: int, ending: Ending) -> None:
            if at_once > 1 and _may_fit_alone(due[at], ending, options):
                crowded.append(due[at])
                return
            good[due[at]] = executor.prepared_ahead(due[at], ending, options)
            tell(f"preparing ahead: {len(good)} of {len(jobs)}")

        errands = [Errand(job, executor.launcher if isinstance(job, ReferenceJob) else launcher) for job in due]
        together(errands, options, at_once, ended, lambda: tell("waiting for another tare"))
        return crowded

    tell(f"preparing ahead: 0 of {len(jobs)}")
    if crowded := prepare(jobs, options.warm):
        prepare(crowded, 1)
    return sum(good.values())


def _may_fit_alone(job: Job, ending: Ending, options: Options) -> bool:
    """Whether others may have had the memory that it lacked. A limit of its own is as low without them, and a
    reference is made alone by the round that needs it."""
    if isinstance(job, ReferenceJob) or ending.memory_limit is not None:
        return False
    failure = failure_of(ending, options.timeout)
    return failure is not None and failure.cause in MEMORY
