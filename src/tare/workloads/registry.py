"""Finding workloads by name: ours, those of installed plug-ins, and those of modules named in TARE_PLUGINS."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from tare.errors import BadInput, unknown_workload
from tare.system.plugins import load_plugins, refuse_a_second
from tare.workloads.base import Size, Workload

_workloads: dict[str, Workload] = {}
Definition = TypeVar("Definition")


def workload(
    name: str, *, sizes: Mapping[str, int | Size] | None = None, **metadata: Any
) -> Callable[[Definition], Definition]:
    """Registers a class, or an instance of one, as a workload; `metadata` are the fields of Workload."""

    def register(definition: Definition) -> Definition:
        made = definition() if isinstance(definition, type) else definition
        refuse_a_second("workload", name, made, _workloads[name].definition if name in _workloads else None)
        full = {key: s if isinstance(s, Size) else Size(s) for key, s in (sizes or {}).items()}
        _workloads[name] = Workload(name=name, definition=made, sizes=full, **metadata)
        return definition

    return register


@cache
def _families() -> tuple[str, ...]:
    """Every module beside this one; networks and other heavy parts are in folders and stay out."""
    found = iter_modules([str(Path(__file__).parent)])
    return tuple(f"tare.workloads.{module.name}" for module in found if not module.ispkg)


def all_workloads() -> dict[str, Workload]:
    load_plugins("tare.workloads", _families())
    return dict(sorted(_workloads.items()))


def get_workload(name: str) -> Workload:
    known = all_workloads()
    if name not in known:
        raise no_workload(name)
    return known[name]


def no_workload(name: str, where: str = "") -> BadInput:
    """Refuses a name; a row of the TorchBench paper's table that another of ours stands for leads to that one."""
    known = all_workloads()
    ours = next((own for own, workload in known.items() if name in workload.counterpart), None)
    if ours is None:
        return unknown_workload(name, known, where)
    return BadInput(f"unknown workload '{name}'{f' in {where}' if where else ''}; here '{ours}' stands for it")
