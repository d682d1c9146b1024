"""Finding workloads by name: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS."""

from collections.abc import Callable, Mapping
from typing import Any

from tare.errors import unknown
from tare.plugins import load_plugins
from tare.workloads.base import Size, Workload

_FAMILIES = (
    "tare.workloads.mlp",
    "tare.workloads.mnist",
    "tare.workloads.recurrent",
    "tare.workloads.resnet",
    "tare.workloads.calls",
)
_workloads: dict[str, Workload] = {}


def workload(
    name: str, *, sizes: Mapping[str, int | Size] | None = None, **metadata: Any
) -> Callable[[type], type]:
    """Registers the decorated class as a workload; `metadata` are the fields of Workload."""

    def register(definition: type) -> type:
        full = {key: s if isinstance(s, Size) else Size(s) for key, s in (sizes or {}).items()}
        _workloads[name] = Workload(name=name, definition=definition(), sizes=full, **metadata)
        return definition

    return register


def all_workloads() -> dict[str, Workload]:
    load_plugins("tare.workloads", _FAMILIES)
    return dict(sorted(_workloads.items()))


def get_workload(name: str) -> Workload:
    known = all_workloads()
    if name not in known:
        raise unknown("workload", name, known)
    return known[name]
