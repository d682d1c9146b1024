"""What this machine has, what it can do at most, and what a workload holds: found by workers."""

from collections.abc import Iterable

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, unknown
from tare.execute.executor import LocalExecutor
from tare.execute.peaks import measure_peaks
from tare.execute.session import open_executor
from tare.measure.peak_store import save_peaks
from tare.measure.telemetry import busy_now
from tare.protocol.jobs import InspectJob
from tare.protocol.messages import Inspected, Probed
from tare.records.record import Failure
from tare.records.work import Peaks
from tare.report import lists
from tare.report.progress import Progress
from tare.report.terminal import make_console
from tare.rungs.registry import every_name
from tare.workloads import get_workload
from tare.workloads.groups import all_groups

# A model whose code needs real values has to run at full size to be counted.
INSPECT_S = 600.0


def survey(rungs: Iterable[str] = ()) -> Probed:
    """What this machine has. The worker takes seconds to import torch, so unknown names in `rungs` are refused
    first."""
    known = set(every_name())
    for name in rungs:
        if name not in known:
            raise unknown("rung", name, known)
    with make_console(stderr=True).status("looking at this machine"), open_executor("spawn") as executor:
        return executor.probe()


def describe_workload(name: str) -> lists.Entry:
    """What a workload is, holds and computes at full size."""
    workload = get_workload(name)
    case = Case(workload=name, rung="eager", batch=workload.batch, sizes=workload.defaults)
    inspected: Inspected | Failure | None = None
    if not workload.lacking():
        with (
            make_console(stderr=True).status(f"building {name} and counting its FLOPs"),
            open_executor("spawn") as executor,
        ):
            inspected = executor.ask(InspectJob(case=case), Inspected, Options(timeout=INSPECT_S))
    return lists.describe_workload(workload, all_groups(), inspected)


def find_peaks(device: str, rounds: int, threads: int | None, keep: bool, show_progress: bool) -> Peaks:
    """Measures the peaks of a device, and keeps them if the machine is quiet."""
    with Progress(show_progress) as progress, open_executor("fork", progress.stage_changed) as executor:
        probed = executor.probe()
        chosen = probed.devices[0] if device == "auto" else device
        known = (*probed.devices, *probed.gpus)
        if chosen not in known:
            raise BadInput(f"torch sees no {chosen} device here (there are: {', '.join(known)})")
        busy = busy_now(executor.gpu(chosen)) if keep else []
        if busy:
            raise BadInput(
                f"this machine is too busy for peaks ({', '.join(busy)}): stop other programs, or use --no-keep, "
                "which shows them without keeping them"
            )
        return measure_and_keep(executor, probed, chosen, rounds, threads, keep)


def measure_and_keep(
    executor: LocalExecutor,
    probed: Probed,
    device: str,
    rounds: int,
    threads: int | None = None,
    keep: bool = True,
) -> Peaks:
    """Peaks with caveats are returned but never kept."""
    peaks = measure_peaks(executor, device, probed.environment, rounds, threads)
    if keep and not peaks.caveats:
        save_peaks(peaks)
    return peaks
