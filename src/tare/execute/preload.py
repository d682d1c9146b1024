"""What the fork server imports once, so that not every worker does."""

from collections.abc import Collection
from pathlib import Path

from tare.rungs.registry import all_rungs, split_name
from tare.workloads import all_workloads
from tare.workloads.groups import OURS

# Packages that import most of themselves only when a name is asked for: the modules behind, which models share.
BEHIND = {"transformers": ("transformers.modeling_utils",), "torch_geometric": ("torch_geometric.nn",)}
# torch's optimizers import this in their first step (a second or more), and so does what wakes a GPU (torch 2.11
# beside an H200: 4 to 6 seconds of every worker, 0.2 where it is there). A compiler's first import of it is part
# of its preparation, and stays there.
DYNAMO = "torch._dynamo"
# What the vendor rung is lowered with: half a second of imports, and more where the disk is slow.
EXPORT = "torch.export._trace"
# There where NVIDIA's driver is; to ask the driver itself would wake it.
DRIVER = Path("/dev/nvidiactl")


def preload(
    workloads: Collection[str], modes: Collection[str], rungs: Collection[str], devices: Collection[str]
) -> tuple[str, ...]:
    """Modules that the workers of a plan will import whatever they measure."""
    known = all_workloads()
    packages = sorted({package for name in workloads for package in known[name].requires})
    modules = [module for package in packages for module in (package, *BEHIND.get(package, ()))]
    # Ours alone: who knows what a plug-in does when it is imported, and the server must touch no device.
    families = {type(known[name].definition).__module__ for name in workloads}
    modules += sorted(module for module in families if module.startswith(OURS))
    if any(_compiles(rung) for rung in rungs):
        return tuple(modules)
    modules += [DYNAMO] if "train" in modes or _on_gpu(devices) else []
    modules += [EXPORT] if any(split_name(rung)[0] == "vendor" for rung in rungs) else []
    return tuple(modules)


def _compiles(rung: str) -> bool:
    """Whether a rung compiles in Python; who knows what one does that is not named or not known here."""
    known = all_rungs().get(split_name(rung)[0])
    return known is None or known.caches


def _on_gpu(devices: Collection[str]) -> bool:
    """Which device `auto` stands for is not known yet."""
    return any(device != "cpu" for device in devices) and DRIVER.exists()
