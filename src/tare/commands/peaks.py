"""The peaks of a machine: measured once, kept, found again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tare.errors import BadInput
from tare.execute.executor import LocalExecutor
from tare.execute.peaks import measure_peaks
from tare.execute.session import open_executor
from tare.measure.peak_store import save_peaks
from tare.protocol.messages import Probed
from tare.records.work import Peaks
from tare.report.progress import Progress


def find_peaks(device: str, rounds: int, show_progress: bool) -> Peaks:
    """Measures the peaks of a device and keeps them."""
    with inquiry(show_progress) as (executor, probed, tell):
        chosen = probed.devices[0] if device == "auto" else device
        known = (*probed.devices, *probed.gpus)
        if chosen not in known:
            raise BadInput(f"torch sees no {chosen} device here (there are: {', '.join(known)})")
        return measure_and_keep(executor, probed, chosen, rounds, tell)


@contextmanager
def inquiry(show_progress: bool) -> Iterator[tuple[LocalExecutor, Probed, Callable[[str], None]]]:
    """An executor for jobs that are no rounds, what the machine has, and who is told of progress."""
    with Progress(show_progress) as progress, open_executor("fork", progress.stage_changed) as executor:
        yield executor, executor.probe(), progress.stage_changed


def measure_and_keep(
    executor: LocalExecutor, probed: Probed, device: str, rounds: int, tell: Callable[[str], None]
) -> Peaks:
    peaks = measure_peaks(executor, device, probed.environment, rounds, lambda what: tell(f"peaks: {what}"))
    save_peaks(peaks)
    return peaks
