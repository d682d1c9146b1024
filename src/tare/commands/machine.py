"""What workers find out without timing a workload: what this machine has and can do at most, what a workload
holds, and what of torch the workloads call."""

from collections.abc import Iterable, Sequence

from tare.cases.case import Case
from tare.cases.options import DEFAULT_ISOLATION, Options
from tare.cases.plan import make_plan, open_names
from tare.errors import BadInput, unknown
from tare.execute.catalogue import open_plan
from tare.execute.peaks import measure_peaks
from tare.execute.session import open_executor, open_plan_session
from tare.measure.peak_store import save_peaks
from tare.measure.telemetry import busy_now
from tare.protocol.jobs import CoverJob, InspectJob, RegistryJob
from tare.protocol.messages import Covered, Inspected, Probed, Registered
from tare.records.record import Failure
from tare.records.work import Peaks
from tare.report import lists
from tare.report.coverage import Coverage, make_coverage
from tare.report.progress import Progress
from tare.report.terminal import make_console
from tare.rungs.registry import every_name
from tare.workloads import get_workload
from tare.workloads.groups import all_groups

# A model whose code needs real values has to run at full size to be counted.
INSPECT_S = 600.0
COVER_S = 300.0


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
        peaks = measure_peaks(executor, chosen, probed.environment, rounds, threads)
        if keep and not peaks.caveats:
            save_peaks(peaks)
        return peaks


def cover_workloads(targets: Sequence[str], device: str, show_progress: bool = True) -> Coverage:
    """What the targets (workloads and groups) cover at smoke size, in eager, at inference and in training."""
    # With one thread the operators are the same, and the machine stays usable.
    grid = {"rung": "eager", "mode": ["infer", "train"], "device": device, "threads": 1, "smoke": True}
    plan = open_plan(make_plan({"grid": [{"workload": list(targets), **grid}]}, "the command line"))
    options = Options(timeout=COVER_S, isolation=DEFAULT_ISOLATION)
    with (
        Progress(show_progress) as progress,
        open_plan_session(plan, options.isolation, progress.stage_changed) as (executor, _, _, expansion),
    ):
        registered = executor.request(RegistryJob(), Registered, options)
        answers = []
        for number, case in enumerate(expansion.cases, 1):
            progress.stage_changed(f"{number} of {len(expansion.cases)}: {case.workload} {case.mode}")
            answer = executor.ask(CoverJob(case=case), Covered, options)
            answers.append((case.workload, case.mode, answer))
    # The option may be "auto" or "all".
    devices = " and ".join(dict.fromkeys(case.device for case in expansion.cases))
    # Part of a group has no coverage to compare.
    asked, groups = set(plan.grids[0].workload), all_groups()
    complete = {group: open_names([f"@{group}"], groups) for group in groups if asked >= set(groups[group])}
    return make_coverage(registered, devices, answers, expansion.skipped, complete)
