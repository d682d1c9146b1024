"""Measuring and keeping the peaks of a machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tare.errors import BadInput
from tare.execute.executor import LocalExecutor
from tare.execute.peaks import measure_peaks
from tare.execute.session import open_executor
from tare.measure.nvml import Gpu
from tare.measure.peak_store import save_peaks
from tare.measure.telemetry import busy_now
from tare.protocol.messages import Probed
from tare.records.work import Peaks
from tare.report.progress import Progress


def find_peaks(device: str, rounds: int, threads: int | None, keep: bool, show_progress: bool) -> Peaks:
    """Measures the peaks of a device, and keeps them if the machine is quiet."""
    with inquiry(show_progress) as (executor, probed, tell):
        chosen = probed.devices[0] if device == "auto" else device
        known = (*probed.devices, *probed.gpus)
        if chosen not in known:
            raise BadInput(f"torch sees no {chosen} device here (there are: {', '.join(known)})")
        busy = busy_now(_gpu(probed, chosen)) if keep else []
        if busy:
            raise BadInput(
                f"this machine is too busy for peaks ({', '.join(busy)}): stop other programs, or use --no-keep, "
                "which shows them without keeping them"
            )
        return measure_and_keep(executor, probed, chosen, rounds, tell, threads, keep)


@contextmanager
def inquiry(show_progress: bool) -> Iterator[tuple[LocalExecutor, Probed, Callable[[str], None]]]:
    """An executor for jobs other than rounds, what the machine has, and a function that shows progress."""
    with Progress(show_progress) as progress, open_executor("fork", progress.stage_changed) as executor:
        yield executor, executor.probe(), progress.stage_changed


def measure_and_keep(
    executor: LocalExecutor,
    probed: Probed,
    device: str,
    rounds: int,
    tell: Callable[[str], None],
    threads: int | None = None,
    keep: bool = True,
) -> Peaks:
    """Peaks with caveats are returned but never kept."""
    gpu = _gpu(probed, device)
    stage = lambda name: tell(f"peaks: {name}")  # noqa: E731
    peaks = measure_peaks(executor, device, probed.environment, rounds, threads, gpu, stage)
    if keep and not peaks.caveats:
        save_peaks(peaks)
    return peaks


def _gpu(probed: Probed, device: str) -> Gpu | None:
    address = probed.gpus.get(device if ":" in device else f"{device}:0")
    return Gpu.open(address) if address else None
