"""What can be measured here: the registries of workloads and rungs, together with what the probe found."""

from collections.abc import Callable, Mapping, Sequence

from tare.cases.case import Case, Mode
from tare.cases.plan import Plan, open_groups, validate_plan
from tare.errors import TareError, unknown
from tare.execute.environments import find_environment, missing_environment
from tare.execute.executor import OnStage, executable_rung
from tare.execute.own_models import LONGEST_S, register_models
from tare.protocol.messages import Probed
from tare.records.environment import Environment
from tare.rungs import all_rungs, get_rung, ladder, split_name
from tare.rungs.registry import environment_name
from tare.workloads import all_workloads, get_workload
from tare.workloads.groups import all_groups
from tare.workloads.own.registry import own_names, own_source
from tare.workloads.registry import no_workload

DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
# Only for the names in a plan: every rung and workload is there.
ANY_MACHINE = Probed(
    devices=["cpu"],
    absent={"cpu": {}},
    missing_packages={},
    gpus={},
    environment=Environment(machine={}, software={}, flags={}, circumstances={}),
)


def open_plan(plan: Plan, on_stage: OnStage = lambda _: None, timeout: float = LONGEST_S) -> Plan:
    """The plan with its groups opened and its users' models described, each within `timeout` seconds. Refuses what
    is wrong on any machine (a name, a size, an optimizer) before this one is probed, which takes seconds."""
    sources = [source for source in plan.models if own_source(source.name) != source]
    register_models(sources, on_stage, timeout)
    opened = open_groups(plan, all_groups())
    known = {*all_workloads(), *own_names()}
    for name in (name for grid in opened.grids for name in grid.workload):
        if name not in known:
            raise no_workload(name, plan.where)
    validate_plan(opened, LocalCatalogue(ANY_MACHINE))
    return opened


class NotBuilt(TareError):
    """The executable of a rung is not built yet."""


class LocalCatalogue:
    """Answers a grid's questions about this machine (tare.cases.plan.Catalogue). `unwanted` says why a case that
    could be measured is of no use to the caller. Without `build`, rungs whose executable is not built are refused.
    """

    def __init__(
        self, probed: Probed, unwanted: Callable[[Case], str | None] = lambda _: None, build: bool = True
    ) -> None:
        self._probed, self._unwanted, self._build = probed, unwanted, build

    def devices(self, name: str) -> list[str]:
        if name == "auto":
            return self._probed.devices[:1]
        if name == "all":
            return list(self._probed.devices)
        kind, colon, index = name.partition(":")
        if kind not in DEVICE_TYPES or (colon and not index.isdigit()):
            raise unknown("device", name, ("auto", "all", *DEVICE_TYPES, "cuda:0"))
        return [name]

    def workload_names(self) -> list[str]:
        return [*all_workloads(), *own_names()]

    def sizes(self, workload: str, smoke: bool = False) -> Mapping[str, int]:
        definition = get_workload(workload)
        return definition.smoke_sizes if smoke else definition.defaults

    def batch(self, workload: str, smoke: bool = False) -> int:
        definition = get_workload(workload)
        return definition.smoke_batch if smoke else definition.batch

    def optimizer(self, workload: str) -> str:
        return get_workload(workload).optimizer

    def modes(self, workload: str, wanted: Sequence[Mode]) -> Sequence[Mode]:
        """A whole step trains or does not; nobody can choose."""
        definition = get_workload(workload)
        return (definition.step_mode,) if definition.is_step else wanted

    def identity(self, workload: str) -> Mapping[str, str | None]:
        definition = get_workload(workload)
        return {"inputs": definition.inputs_text, "source": definition.digest}

    def ladder(self, workload: str, device: str) -> list[str]:  # noqa: ARG002
        return onnx_rungs() if get_workload(workload).is_onnx else ladder()

    def check_rung(self, name: str) -> None:
        get_rung(name)

    def refusal(self, case: Case) -> tuple[str, str] | None:
        """Why a case cannot be measured here: its cause and the reason, or None."""
        missing = self._probed.missing_packages.get(case.workload)
        if missing:
            return "not-installed", f"{case.workload} {missing.reason}: {missing.remedy}"
        device_type = case.device_type
        if device_type not in self._probed.devices:
            return "not-installed", f"torch sees no {device_type} device here"
        if ":" in case.device and case.device not in self._probed.gpus:
            return "not-installed", f"there is no {case.device} here"
        missing = self._probed.absent[device_type].get(split_name(case.rung)[0])
        if name := environment_name(case.rung):
            # What the environment lacks, a worker there will say.
            missing = missing_environment(case.rung, name)
        elif missing and find_environment(case.rung):
            missing = None
        if missing:
            return "not-installed", f"{missing.reason}: {missing.remedy}"
        reason = _workload_refusal(case) or _device_refusal(case) or _step_refusal(case)
        reason = reason or all_rungs()[split_name(case.rung)[0]].supports(case, get_workload(case.workload))
        reason = reason or self._unwanted(case)
        if environment_name(case.rung) and executable_rung(case):
            reason = "a rung in C++ is built for the running environment alone"
        if reason:
            return "unsupported", reason
        if not self._build and _is_unbuilt(case):
            return "not-installed", "not built yet: tare build"
        return None


def onnx_rungs() -> list[str]:
    """Those that run an ONNX file."""
    return [name for name, rung in all_rungs().items() if rung.onnx_files]


def _is_unbuilt(case: Case) -> bool:
    def refuse() -> None:
        raise NotBuilt

    rung = executable_rung(case)
    try:
        if rung:
            rung.command(case, refuse)
    except NotBuilt:
        return True
    return False


def _workload_refusal(case: Case) -> str | None:
    workload = get_workload(case.workload)
    if case.layout not in workload.layouts:
        return f"{case.workload} has no {case.layout} layout"
    for name, value in case.sizes.items():
        refused = workload.sizes[name].refusal(name, value)
        if refused:
            return refused
    return workload.refusal(case.requirements)


def _step_refusal(case: Case) -> str | None:
    if get_workload(case.workload).is_step and not get_rung(case.rung).whole_steps:
        return f"{case.workload} is a whole step, which {case.rung} cannot take apart"
    if get_workload(case.workload).is_onnx and not get_rung(case.rung).onnx_files:
        return f"an ONNX file has no model of torch: --rung {','.join(onnx_rungs())}"
    if case.optimizer == "own" and not get_workload(case.workload).is_step:
        return "the optimizer 'own' is that of a whole step (FILE.py::train_step)"
    return None


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
