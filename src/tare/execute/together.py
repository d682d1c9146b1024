"""Jobs side by side: for what is not timed, and would otherwise wait for one core while the others idle."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from tare.cases.options import Options
from tare.execute.jobs import Job
from tare.execute.launch import CannotStart, Launcher
from tare.execute.lock import machine_lock
from tare.execute.protocol import Failed
from tare.execute.supervise import Ending, Watchman, supervise
from tare.home import home
from tare.records.record import Failure


class Errand(NamedTuple):
    job: Job
    launcher: Launcher


class Abandoned(Exception):
    """Everything was interrupted: nobody wants what this worker does."""


def together(
    errands: Sequence[Errand],
    options: Options,
    at_once: int,
    ended: Callable[[int, Ending], None],
    on_wait: Callable[[], None] = lambda: None,
) -> None:
    """Runs so many at once; `ended` hears of each, by its position, as soon as it has ended. Nobody measures
    meanwhile. An interruption ends them all."""
    abandoned = threading.Event()

    def look() -> None:
        if abandoned.is_set():
            raise Abandoned

    def run(errand: Errand) -> Ending:
        look()
        try:
            process = errand.launcher.launch(errand.job)
        except CannotStart as error:
            # A rung of somebody's own, whose program is not there: no matter to the others.
            said = Failed(failure=Failure(cause="not-installed", message=str(error), stage="start"))
            return Ending(0, None, [said], "", 0.0, 0)
        return supervise(process, Watchman(options.timeout, options.memory, look))

    with machine_lock(home(), on_wait), ThreadPoolExecutor(at_once) as pool:
        futures = {pool.submit(run, errand): at for at, errand in enumerate(errands)}
        try:
            for future in as_completed(futures):
                ended(futures[future], future.result())
        except BaseException:
            abandoned.set()
            raise
