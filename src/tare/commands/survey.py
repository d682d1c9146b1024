"""What this machine has, and what a workload holds. Nothing here measures."""

from collections.abc import Iterable

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import unknown
from tare.execute.session import open_executor
from tare.protocol.jobs import InspectJob
from tare.protocol.messages import Inspected, Probed
from tare.records.record import Failure
from tare.report import lists
from tare.report.terminal import make_console
from tare.rungs.registry import every_name
from tare.workloads import get_workload
from tare.workloads.groups import all_groups

# A model whose code needs real values has to run at full size to be counted.
INSPECT_S = 600.0


def survey(rungs: Iterable[str] = ()) -> Probed:
    """What this machine has, found by a worker, which takes seconds to import torch. So unknown names in `rungs`
    are refused first."""
    known = set(every_name())
    for name in rungs:
        if name not in known:
            raise unknown("rung", name, known)
    with make_console(stderr=True).status("looking at this machine"), open_executor("spawn") as executor:
        return executor.probe()


def describe_workload(name: str) -> lists.Entry:
    """What a workload is, holds and computes at full size, found by a worker."""
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
