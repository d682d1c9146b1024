"""What the fork server imports once, so that not every worker has to."""

from collections.abc import Collection, Sequence
from pathlib import Path

from tare.cases.case import Case
from tare.cases.plan import Plan
from tare.rungs.registry import all_rungs, split_name
from tare.workloads import get_workload
from tare.workloads.groups import OURS

# Packages that import most of themselves lazily: the modules that their models share.
LAZY_MODULES = {"transformers": ("transformers.modeling_utils",), "torch_geometric": ("torch_geometric.nn",)}
# torch's optimizers import this in their first step (a second or more), and so does the initialisation of a GPU
# (torch 2.11 with an H200: 4 to 6 seconds in every worker, 0.2 if it is preloaded). A compiler's first import of
# it is part of its preparation, and is not preloaded.
DYNAMO = "torch._dynamo"
# What the vendor rung is lowered with: half a second of imports, and more with a slow disk.
EXPORT = "torch.export._trace"
# Exists where NVIDIA's driver is. Asking the driver itself would initialise it.
DRIVER = Path("/dev/nvidiactl")
# The fields of a case that decide, in the order of the parameters of `preload`.
FIELDS = ("workload", "mode", "rung", "device")


def preload_of_plan(plan: Plan) -> tuple[str, ...]:
    return preload(
        *({value for grid in plan.grids for value in getattr(grid, field) or ("a ladder",)} for field in FIELDS)
    )


def preload_of_cases(cases: Sequence[Case]) -> tuple[str, ...]:
    return preload(*({getattr(case, field) for case in cases} for field in FIELDS))


def preload(
    workloads: Collection[str], modes: Collection[str], rungs: Collection[str], devices: Collection[str]
) -> tuple[str, ...]:
    """Modules that all workers will import, whatever they measure."""
    known = {name: get_workload(name) for name in workloads}
    packages = sorted({package for workload in known.values() for package in workload.requires})
    modules = [module for package in packages for module in (package, *LAZY_MODULES.get(package, ()))]
    # Only our own: a plug-in may touch the device when it is imported, which the server must not.
    families = {type(workload.definition).__module__ for workload in known.values()}
    modules += sorted(module for module in families if module.startswith(OURS))
    if any(_compiles(rung) for rung in rungs):
        return tuple(modules)
    modules += [DYNAMO] if "train" in modes or _on_gpu(devices) else []
    modules += [EXPORT] if any(split_name(rung)[0] == "vendor" for rung in rungs) else []
    return tuple(modules)


def _compiles(rung: str) -> bool:
    """Whether a rung compiles in Python, which is assumed of unknown rungs."""
    known = all_rungs().get(split_name(rung)[0])
    return known is None or known.caches


def _on_gpu(devices: Collection[str]) -> bool:
    """The device `auto` may be a GPU: it is not resolved yet."""
    return any(device != "cpu" for device in devices) and DRIVER.exists()
