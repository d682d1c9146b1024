"""Workloads by name: tare's own, those of installed plug-ins, and those of modules named in TARE_PLUGINS."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from tare.cases.source import FORMS, OBJECT
from tare.errors import BadInput, quote, unknown
from tare.system.plugins import load_plugins, refuse_a_second
from tare.workloads.base import Size, Workload
from tare.workloads.own.registry import find_own

_workloads: dict[str, Workload] = {}
Definition = TypeVar("Definition")


def workload(
    name: str, *, sizes: Mapping[str, int | Size] | None = None, **metadata: Any
) -> Callable[[Definition], Definition]:
    """Registers a class, or an instance of one, as a workload; `metadata` are the fields of Workload."""

    def register(definition: Definition) -> Definition:
        instance = definition() if isinstance(definition, type) else definition
        refuse_a_second("workload", name, instance, _workloads[name].definition if name in _workloads else None)
        full = {key: s if isinstance(s, Size) else Size(s) for key, s in (sizes or {}).items()}
        _workloads[name] = Workload(name=name, definition=instance, sizes=full, **metadata)
        return definition

    return register


@cache
def _families() -> tuple[str, ...]:
    """The modules of this folder. Networks and datasets import heavy packages, so they are in folders."""
    modules = iter_modules([str(Path(__file__).parent)])
    return tuple(f"tare.workloads.{module.name}" for module in modules if not module.ispkg)


def all_workloads() -> dict[str, Workload]:
    load_plugins("tare.workloads", _families())
    return dict(sorted(_workloads.items()))


def get_workload(name: str) -> Workload:
    """One of the zoo or of a plug-in, or a user's model that was described (tare.workloads.own)."""
    known = all_workloads().get(name) or find_own(name)
    if known is None:
        raise no_workload(name)
    return known


def no_workload(name: str, where: str = "") -> BadInput:
    """The error for an unknown name. For a row of TorchBench's table it names the workload that represents it."""
    known = all_workloads()
    ours = next((own for own, workload in known.items() if name in workload.counterpart), None)
    if ours is None:
        mistaken = None if get_close_matches(name, known, n=1) else _no_model(name)
        return mistaken or unknown("workload", name, known, where)
    return BadInput(f"unknown workload '{name}'{f' in {where}' if where else ''}; '{ours}' represents it here")


def _no_model(name: str) -> BadInput | None:
    """The error for a file or a folder that is named like a workload; None where there is none of that name."""
    with suppress(OSError):
        if Path(name).is_dir():
            return BadInput(f"{quote(name)} is a folder: name a file in it and its model, FILE.py{OBJECT}NAME")
        if Path(name).is_file():
            return BadInput(f"{quote(name)} is no model and no plan: want {FORMS}, or PLAN.toml")
    return None
