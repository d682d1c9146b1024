"""What the fork server imports once, so that not every worker does."""

from collections.abc import Collection

from tare.workloads import all_workloads
from tare.workloads.groups import OURS

# Packages that import most of themselves only when a name is asked for: the modules behind, which models share.
BEHIND = {"transformers": ("transformers.modeling_utils",), "torch_geometric": ("torch_geometric.nn",)}
# torch's optimizers import this in their first step (a second or more). A compiler's first import of it is part of
# its preparation, and stays there.
OPTIMIZERS = "torch._dynamo"


def preload(workloads: Collection[str], modes: Collection[str], rungs: Collection[str]) -> tuple[str, ...]:
    """Modules that the workers of a plan will import whatever they measure."""
    known = all_workloads()
    packages = sorted({package for name in workloads for package in known[name].requires})
    modules = [module for package in packages for module in (package, *BEHIND.get(package, ()))]
    # Ours alone: who knows what a plug-in does when it is imported, and the server must touch no device.
    families = {type(known[name].definition).__module__ for name in workloads}
    modules += sorted(module for module in families if module.startswith(OURS))
    if "train" in modes and set(rungs) == {"eager"}:
        modules.append(OPTIMIZERS)
    return tuple(modules)
