"""Groups in plans: `@nlp` stands for the workloads of that group, wherever a plan names workloads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tare.cases.grid import Grid
from tare.cases.plan import Plan
from tare.errors import unknown

SIGN = "@"
# What a group runs on where no rung is named: a hundred whole ladders would take a day, and most of it compiling.
GROUP_RUNGS = ("eager",)

Groups = Mapping[str, Sequence[str]]


def is_group(name: str) -> bool:
    return name.startswith(SIGN)


def open_groups(plan: Plan, groups: Groups) -> Plan:
    """The plan with its groups replaced by their workloads; BadInput names the valid groups."""
    return msgspec.structs.replace(
        plan,
        grids=tuple(_open_grid(grid, groups, plan.where) for grid in plan.grids),
        includes=tuple(_open_grid(grid, groups, plan.where) for grid in plan.includes),
        excludes=tuple(_open_rule(rule, groups, plan.where) for rule in plan.excludes),
    )


def open_names(names: Iterable[str], groups: Groups, where: str = "") -> tuple[str, ...]:
    """Workloads and the workloads of groups, each once, in the order given."""
    found: dict[str, None] = {}
    for name in names:
        if not is_group(name):
            found[name] = None
        elif name.removeprefix(SIGN) in groups:
            found.update(dict.fromkeys(groups[name.removeprefix(SIGN)]))
        else:
            raise unknown("group", name, (SIGN + group for group in groups), where)
    return tuple(found)


def _open_grid(grid: Grid, groups: Groups, where: str) -> Grid:
    if not any(map(is_group, grid.workload)):
        return grid
    names = open_names(grid.workload, groups, where)
    return msgspec.structs.replace(grid, workload=names, rung=grid.rung or GROUP_RUNGS)


def _open_rule(rule: dict[str, Any], groups: Groups, where: str) -> dict[str, Any]:
    if "workload" not in rule:
        return rule
    return rule | {"workload": open_names(rule["workload"], groups, where)}
