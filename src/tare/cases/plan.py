"""A plan: grids of cases plus how to measure them, from a TOML file or the command line."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tare.cases.case import Case
from tare.cases.grid import (
    Catalogue,
    Expansion,
    Grid,
    expand,
    make_filter,
    make_grid,
    validate_grid,
    validate_names,
)
from tare.cases.tables import convert_table, read_toml
from tare.errors import BadInput, unknown

# Wherever a plan names workloads, `@nlp` stands for those of the group nlp.
GROUP_SIGN = "@"
# The rungs of a group's workloads where no rung is named: a hundred whole ladders would take a day of compiling.
GROUP_RUNGS = ("eager",)

Groups = Mapping[str, Sequence[str]]


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it is written."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    options: dict[str, Any] = {}
    grid: list[dict[str, Any]] = []
    include: list[dict[str, Any]] = []
    exclude: list[dict[str, Any]] = []


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An exclude removes what it matches from the grids; it does not remove cases that an include adds."""

    name: str
    # The file, or "the command line", for error messages.
    where: str
    grids: tuple[Grid, ...]
    includes: tuple[Grid, ...] = ()
    excludes: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = {}


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file; BadInput names the file and what is wrong in it."""
    # A file name is bytes, which are not always a text that a store can keep.
    name = os.fsencode(path.stem).decode(errors="replace")
    return make_plan(read_toml(path, "plan"), str(path), default_name=name)


def make_plan(document: Mapping[str, Any], where: str, default_name: str = "plan") -> Plan:
    # [grid] stands for a list of one [[grid]].
    lists = {
        name: [value] if isinstance(value, dict) and name != "options" else value
        for name, value in document.items()
    }
    written = convert_table({"name": default_name, **lists}, PlanDocument, where)
    plan = Plan(
        name=written.name,
        where=where,
        grids=tuple(make_grid(table, f"{where}, grid {i}") for i, table in enumerate(written.grid, 1)),
        includes=tuple(make_grid(table, f"{where}, include {i}") for i, table in enumerate(written.include, 1)),
        excludes=tuple(make_filter(table, f"{where}, exclude {i}") for i, table in enumerate(written.exclude, 1)),
        options=written.options,
    )
    if not plan.grids and not plan.includes:
        raise BadInput(f"{where}: a plan has at least one [[grid]] or [[include]]")
    return plan


def validate_plan(plan: Plan, catalogue: Catalogue) -> None:
    """Raises BadInput for unknown names and sizes, and for grids that are too large. Nothing is expanded, so this
    is quick enough to do before the machine is probed."""
    for grid in (*plan.grids, *plan.includes):
        validate_grid(grid, catalogue)
    for rule in plan.excludes:
        _resolve_exclude(rule, catalogue)


def expand_plan(plan: Plan, catalogue: Catalogue) -> Expansion:
    """All cases of a plan, each once, in the order of the plan."""
    excludes = [_resolve_exclude(rule, catalogue) for rule in plan.excludes]
    expansions = [expand(grid, catalogue, excludes) for grid in plan.grids]
    expansions += [expand(grid, catalogue) for grid in plan.includes]
    return Expansion(
        list(dict.fromkeys(case for expansion in expansions for case in expansion.cases)),
        list(dict.fromkeys(skip for expansion in expansions for skip in expansion.skipped)),
        list(dict.fromkeys(case for expansion in expansions for case in expansion.searched)),
    )


def fingerprint(cases: list[Case], options: object) -> str:
    """Identifies a plan in a store, so that --resume finds an interrupted run of it."""
    text = msgspec.json.encode([sorted(case.key for case in cases), options], order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def open_groups(plan: Plan, groups: Groups) -> Plan:
    """The plan with its groups replaced by their workloads; BadInput for an unknown group."""

    def open_grid(grid: Grid) -> Grid:
        has_group = any(name.startswith(GROUP_SIGN) for name in grid.workload)
        workloads = open_names(grid.workload, groups, plan.where)
        rungs = grid.rung or (GROUP_RUNGS if has_group else None)
        return msgspec.structs.replace(grid, workload=workloads, rung=rungs)

    def open_rule(rule: dict[str, Any]) -> dict[str, Any]:
        named = {"workload": open_names(rule["workload"], groups, plan.where)} if "workload" in rule else {}
        return rule | named

    return msgspec.structs.replace(
        plan,
        grids=tuple(map(open_grid, plan.grids)),
        includes=tuple(map(open_grid, plan.includes)),
        excludes=tuple(map(open_rule, plan.excludes)),
    )


def open_names(names: Iterable[str], groups: Groups, where: str = "") -> tuple[str, ...]:
    """Workloads and the workloads of groups, each once, in the order given."""
    workloads: dict[str, None] = {}
    for name in names:
        if not name.startswith(GROUP_SIGN):
            workloads[name] = None
        elif name.removeprefix(GROUP_SIGN) in groups:
            workloads.update(dict.fromkeys(groups[name.removeprefix(GROUP_SIGN)]))
        else:
            raise unknown("group", name, (GROUP_SIGN + group for group in groups), where)
    return tuple(workloads)


def _resolve_exclude(rule: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The exclude with its device names resolved. An unknown name is an error, because it would match nothing."""
    validate_names(catalogue, rule.get("workload", ()), rule.get("rung", ()), rule.get("size", ()))
    devices = [device for name in rule.get("device", ()) for device in catalogue.devices(name)]
    return {**rule, "device": tuple(devices)} if devices else dict(rule)
