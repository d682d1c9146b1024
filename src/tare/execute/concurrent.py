"""Jobs side by side: for what is not timed, and would otherwise wait for one core while the others idle."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple, TypeVar

from tare.cases.options import Options
from tare.execute.launch import CannotStart, Launcher
from tare.execute.measurement_gate import Abandoned
from tare.execute.supervise import Ending, Watchman, supervise
from tare.protocol.jobs import Job
from tare.protocol.messages import Failed
from tare.records.record import Failure
from tare.system.home import home
from tare.system.locks import machine_lock

Result = TypeVar("Result")


def cores_each(at_once: int) -> int:
    """How many processes a compiler may have for itself, beside those of others."""
    return max((os.cpu_count() or 1) // at_once, 1)


class Errand(NamedTuple):
    job: Job
    launcher: Launcher


def together(
    errands: Sequence[Errand],
    options: Options,
    at_once: int,
    ended: Callable[[int, Ending], None],
    on_wait: Callable[[], None] = lambda: None,
) -> None:
    """Runs so many at once; `ended` hears of each, by its position, as soon as it has ended. Nobody measures
    meanwhile. An interruption ends them all."""

    def run(at: int, look: Callable[[], None]) -> Ending:
        errand = errands[at]
        try:
            process = errand.launcher.launch(errand.job)
        except CannotStart as error:
            # A rung of somebody's own, whose program is not there: no matter to the others.
            said = Failed(failure=Failure(cause="not-installed", message=str(error), stage="start"))
            return Ending(0, None, [said], "", 0.0, 0)
        return supervise(process, Watchman(options.timeout, options.memory, look))

    side_by_side(len(errands), at_once, run, ended, on_wait)


def side_by_side(
    count: int,
    at_once: int,
    run: Callable[[int, Callable[[], None]], Result],
    ended: Callable[[int, Result], None],
    on_wait: Callable[[], None] = lambda: None,
    abandon: Callable[[], None] = lambda: None,
) -> None:
    """Runs each in a thread, so many at once, on a machine that is ours meanwhile. Each is given what to call
    now and then: it raises when nobody wants that one any more, which `abandon` is told as well."""
    abandoned = threading.Event()

    def look() -> None:
        if abandoned.is_set():
            raise Abandoned

    def run_one(at: int) -> Result:
        look()
        return run(at, look)

    with machine_lock(home(), on_wait), ThreadPoolExecutor(at_once) as pool:
        futures = {pool.submit(run_one, at): at for at in range(count)}
        try:
            for future in as_completed(futures):
                ended(futures[future], future.result())
        except BaseException:
            abandoned.set()
            abandon()
            raise
