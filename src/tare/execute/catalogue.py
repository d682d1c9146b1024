"""What can be measured here: the registries of workloads and rungs, together with what the probe found."""

from collections.abc import Callable, Mapping

from tare.cases.case import Case
from tare.cases.plan import Plan, expand_plan, open_groups
from tare.errors import unknown
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.rungs import all_rungs, get_rung, ladder, split_name
from tare.workloads import all_workloads, get_workload
from tare.workloads.groups import all_groups
from tare.workloads.registry import no_workload

KINDS = ("cpu", "cuda", "mps", "xpu")


def open_plan(plan: Plan) -> Plan:
    """The plan with its groups opened; refuses what no machine could run before anything slow begins."""
    opened = open_groups(plan, all_groups())
    known = all_workloads()
    for grid in (*opened.grids, *opened.includes):
        for name in grid.workload:
            if name not in known:
                raise no_workload(name, plan.where)
        for rung in grid.rung or ():
            get_rung(rung)
    check_plan(opened)
    return opened


def check_plan(plan: Plan) -> None:
    """Refuses what is wrong on any machine (a size, a device or an optimizer that does not fit) before this one is
    looked at, which takes seconds. Expanded as if there were a CPU and nothing missing; the cases are not used."""
    nowhere = Environment(machine={}, software={}, flags={}, circumstances={})
    any_machine = Probed(devices=["cpu"], absent={"cpu": {}}, missing_packages={}, gpus={}, environment=nowhere)
    expand_plan(plan, LocalCatalogue(any_machine))


class LocalCatalogue:
    """Answers a grid's questions about this machine; see tare.cases.grid.Catalogue. `unwanted` says why a case
    that could be measured is of no use to who asks."""

    def __init__(self, probed: Probed, unwanted: Callable[[Case], str | None] = lambda _: None) -> None:
        self._probed, self._unwanted = probed, unwanted

    def devices(self, name: str) -> list[str]:
        if name == "auto":
            return self._probed.devices[:1]
        if name == "all":
            return list(self._probed.devices)
        if name.partition(":")[0] not in KINDS or not _is_index(name):
            raise unknown("device", name, ("auto", "all", *KINDS, "cuda:0"))
        return [name]

    def workload_names(self) -> list[str]:
        return list(all_workloads())

    def sizes(self, workload: str, smoke: bool = False) -> Mapping[str, int]:
        found = get_workload(workload)
        return found.smoke_sizes if smoke else found.defaults

    def batch(self, workload: str, smoke: bool = False) -> int:
        found = get_workload(workload)
        return found.smoke_batch if smoke else found.batch

    def optimizer(self, workload: str) -> str:
        return get_workload(workload).optimizer

    def ladder(self, workload: str, device: str) -> list[str]:  # noqa: ARG002
        return ladder()

    def check_rung(self, name: str) -> None:
        get_rung(name)

    def refusal(self, case: Case) -> tuple[str, str] | None:
        """Why a case cannot be measured here: its cause and the reason, or None."""
        absent = self._probed.missing_packages.get(case.workload)
        if absent:
            return "not-installed", f"{case.workload} {absent.reason}: {absent.remedy}"
        kind = case.device_type
        if kind not in self._probed.devices:
            return "not-installed", f"torch sees no {kind} device here"
        if ":" in case.device and case.device not in self._probed.gpus:
            return "not-installed", f"there is no {case.device} here"
        lacking = self._probed.absent[kind].get(split_name(case.rung)[0])
        if lacking:
            return "not-installed", f"{lacking.reason}: {lacking.remedy}"
        reason = _workload_refusal(case) or _device_refusal(case)
        reason = reason or all_rungs()[split_name(case.rung)[0]].supports(case, get_workload(case.workload))
        reason = reason or self._unwanted(case)
        return ("unsupported", reason) if reason else None


def _workload_refusal(case: Case) -> str | None:
    workload = get_workload(case.workload)
    if case.layout not in workload.layouts:
        return f"{case.workload} has no {case.layout} layout"
    for name, value in case.sizes.items():
        refused = workload.sizes[name].refusal(name, value)
        if refused:
            return refused
    return workload.refusal(case.requirements)


def _device_refusal(case: Case) -> str | None:
    if case.feed != "device" and case.device_type == "cpu":
        return "on the CPU there is no copy to a device: only --feed device"
    if case.feed == "pinned" and case.device_type != "cuda":
        return f"pinned memory is CUDA's, not {case.device_type}'s"
    if case.precision == "tf32" and case.device_type != "cuda":
        return "TF32 is a mode of NVIDIA's tensor cores: it needs a CUDA device"
    if case.precision == "fp16" and case.mode == "train":
        return "float16 weights do not train (gradients underflow): use amp-fp16"
    return None


def _is_index(name: str) -> bool:
    _, colon, index = name.partition(":")
    return not colon or index.isdigit()
