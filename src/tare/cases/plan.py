"""A plan: grids of cases, from a TOML file or the command line, how to measure them, and the cases they make."""

import hashlib
import itertools
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec

from tare.cases.case import Case, Count, Feed, Layout, Mode, Optimizer, Precision
from tare.cases.source import FORMS, ModelSource, is_target, read_target
from tare.cases.tables import convert_table, read_toml
from tare.errors import BadInput, brief, unknown

# What identifies a user's model besides its name follows from the model.
IDENTITY = ("inputs", "source")
# In a grid, `size` is a table: for each name of a size, the values it takes.
FIELDS = tuple("size" if name == "sizes" else name for name in Case.__struct_fields__ if name not in IDENTITY)
# A grid may also name these, an exclude may not.
GRID_FIELDS = (*FIELDS, "smoke")
AUTO = "auto"
# No machine has that many cores, and with many more a worker would create threads until its timeout. The limit is
# not this machine's number of cores, so that a plan means the same everywhere.
MOST_THREADS = 4096
# Of a plan. Every case is compared with every exclude.
MOST_CASES, MOST_TABLES = 100_000, 1_000

NOT_EMPTY = msgspec.Meta(min_length=1)
Names = Annotated[tuple[str, ...], NOT_EMPTY]
Counts = Annotated[tuple[Count, ...], NOT_EMPTY]
Threads = Annotated[int, msgspec.Meta(ge=1, le=MOST_THREADS)]

# Wherever a plan names workloads, `@nlp` stands for those of the group nlp.
GROUP_SIGN = "@"
# The rungs of a group's workloads where no rung is named: a hundred whole ladders would take a day of compiling.
GROUP_RUNGS = ("eager",)

Groups = Mapping[str, Sequence[str]]


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Lists of values for the fields of a case. None means the default of the workload, the device or the ladder.

    With `auto_batch` the batch is searched for; `smoke` takes the small sizes of the workloads where no size is
    named. A plan's excludes do not apply to an `included` grid.
    """

    workload: Names = ()
    rung: Names | None = None
    mode: Annotated[tuple[Mode, ...], NOT_EMPTY] = ("infer",)
    device: Names = (AUTO,)
    precision: Annotated[tuple[Precision, ...], NOT_EMPTY] = ("fp32",)
    batch: Counts | None = None
    size: Annotated[dict[str, Counts], NOT_EMPTY] = {}
    feed: Annotated[tuple[Feed, ...], NOT_EMPTY] = ("device",)
    layout: Annotated[tuple[Layout, ...], NOT_EMPTY] = ("contiguous",)
    optimizer: Annotated[tuple[Optimizer, ...], NOT_EMPTY] | None = None
    threads: Annotated[tuple[Threads, ...], NOT_EMPTY] | None = None
    smoke: bool = False
    auto_batch: bool = False
    included: bool = False


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it is written."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    options: dict[str, Any] = {}
    grid: list[dict[str, Any]] = []
    include: list[dict[str, Any]] = []
    exclude: list[dict[str, Any]] = []
    model: list[dict[str, Any]] = []


class ModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A user's model as a plan writes it: the target that its grids name, and its inputs and loss."""

    target: str
    input: tuple[str, ...] = ()
    inputs: str = ""
    loss: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An exclude removes what it matches from the grids, except from those that an include adds."""

    name: str
    # The file, or "the command line", for error messages.
    where: str
    grids: list[Grid]
    excludes: list[dict[str, Any]] = []
    options: dict[str, Any] = {}
    # The user's models that its grids name.
    models: list[ModelSource] = []


class Skip(msgspec.Struct, frozen=True):
    """A combination that cannot be measured here, with the reason; counted and shown, never silent."""

    key: str
    cause: str
    reason: str


class Catalogue(Protocol):
    """What a grid must know of workloads, rungs and this machine to become cases."""

    def devices(self, name: str) -> list[str]: ...
    def workload_names(self) -> list[str]: ...
    def sizes(self, workload: str, smoke: bool = False) -> Mapping[str, int]: ...
    def batch(self, workload: str, smoke: bool = False) -> int: ...
    def optimizer(self, workload: str) -> str: ...
    def modes(self, workload: str, wanted: Sequence[Mode]) -> Sequence[Mode]: ...
    def identity(self, workload: str) -> Mapping[str, str | None]: ...
    def ladder(self, workload: str, device: str) -> list[str]: ...
    def check_rung(self, name: str) -> None: ...
    def refusal(self, case: Case) -> tuple[str, str] | None: ...


class Expansion(msgspec.Struct):
    """`searched` holds the cases whose batch is still to be found; their batch is 1."""

    cases: list[Case] = []
    skipped: list[Skip] = []
    searched: list[Case] = []


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
    grids = [make_grid(table, f"{where}, grid {i}") for i, table in enumerate(written.grid, 1)]
    for i, table in enumerate(written.include, 1):
        grids.append(msgspec.structs.replace(make_grid(table, f"{where}, include {i}"), included=True))
    if not grids:
        raise BadInput(f"{where}: a plan has at least one [[grid]] or [[include]]")
    excludes = [make_filter(table, f"{where}, exclude {i}") for i, table in enumerate(written.exclude, 1)]
    plan = Plan(name=written.name, where=where, grids=grids, excludes=excludes, options=written.options)
    return _name_models(plan, written.model)


def _name_models(plan: Plan, tables: Sequence[Mapping[str, Any]]) -> Plan:
    """The plan with the names of workloads in place of the targets that name users' models."""
    sources: dict[str, ModelSource] = {}
    for i, table in enumerate(tables, 1):
        place = f"{plan.where}, model {i}" if len(tables) > 1 else plan.where
        written = convert_table({**table, "input": _as_list(table.get("input", []))}, ModelDocument, place)
        if not is_target(written.target):
            raise BadInput(f"{place}: '{written.target[:120]}' is no model of a user: want {FORMS}")
        sources[written.target] = read_target(written.target, written.input, written.inputs, written.loss, place)
    rules = [grid.workload for grid in plan.grids] + [rule.get("workload", ()) for rule in plan.excludes]
    for target in (target for names in rules for target in names if is_target(target)):
        if target not in sources:
            sources[target] = read_target(target, where=plan.where)

    def named(targets: Sequence[str]) -> tuple[str, ...]:
        return tuple(sources[target].name if target in sources else target for target in targets)

    grids = [msgspec.structs.replace(grid, workload=named(grid.workload)) for grid in plan.grids]
    excludes = [
        {**rule, "workload": named(rule["workload"])} if "workload" in rule else rule for rule in plan.excludes
    ]
    return msgspec.structs.replace(plan, grids=grids, excludes=excludes, models=list(sources.values()))


def make_grid(table: Mapping[str, Any], where: str) -> Grid:
    """A grid from a TOML table or the command line; a scalar stands for a list of one."""
    auto_batch = _as_list(table.get("batch")) == [AUTO]
    named = {name: value for name, value in table.items() if not (name == "batch" and auto_batch)}
    grid = _convert(named, where, GRID_FIELDS)
    if not grid.workload:
        raise BadInput(f"{where}: a grid names at least one workload")
    return msgspec.structs.replace(grid, auto_batch=auto_batch)


def make_filter(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The checked values of an exclude, which names only some fields."""
    grid = _convert(table, where, FIELDS)
    return {name: getattr(grid, name) for name in table}


def _convert(table: Mapping[str, Any], where: str, valid: Sequence[str]) -> Grid:
    lists = {name: value if name in ("size", "smoke") else _as_list(value) for name, value in table.items()}
    if isinstance(sizes := table.get("size"), Mapping):
        lists["size"] = {name: _as_list(value) for name, value in sizes.items()}
    return convert_table(lists, Grid, where, valid)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


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

    grids, excludes = list(map(open_grid, plan.grids)), list(map(open_rule, plan.excludes))
    return msgspec.structs.replace(plan, grids=grids, excludes=excludes)


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


def validate_plan(plan: Plan, catalogue: Catalogue) -> None:
    """Raises BadInput for unknown names and sizes, and for grids that are too large. Nothing is expanded, so this
    is quick enough to do before the machine is probed."""
    for kind, tables in (("grids", plan.grids), ("excludes", plan.excludes)):
        if len(tables) > MOST_TABLES:
            raise BadInput(f"{plan.where} has {len(tables)} {kind}; split it into plans of at most {MOST_TABLES}")
    for grid in plan.grids:
        validate_grid(grid, catalogue)
    points = sum(map(count_combinations, plan.grids))
    if points > MOST_CASES:
        raise BadInput(f"{plan.where} has {points} combinations; split it into plans of at most {MOST_CASES}")
    for rule in plan.excludes:
        _resolve_exclude(rule, catalogue)


def validate_grid(grid: Grid, catalogue: Catalogue) -> None:
    """Raises BadInput for names and sizes that do not exist and for a grid that is too large, without expanding
    it. What cannot be measured on this machine is not an error."""
    validate_names(catalogue, grid.workload, grid.rung or (), grid.size)
    for name in grid.device:
        catalogue.devices(name)
    points = count_combinations(grid)
    if points > MOST_CASES:
        raise BadInput(f"the grid has {points} combinations; split it into plans of at most {MOST_CASES}")
    if grid.optimizer and "train" not in grid.mode:
        raise BadInput(f"optimizer {', '.join(grid.optimizer)} is for training: want mode train")


def count_combinations(grid: Grid) -> int:
    """How many cases a grid has at least: where it names no rung, each stands for a ladder."""
    axes = [getattr(grid, name) or (None,) for name in FIELDS if name != "size"]
    return math.prod(len(values) for values in [*axes, *grid.size.values()])


def validate_names(
    catalogue: Catalogue, workloads: Sequence[str], rungs: Iterable[str], sizes: Collection[str]
) -> None:
    """Raises BadInput for an unknown name. A size must belong to a workload named, or to any if none is."""
    known = catalogue.workload_names()
    for name in workloads:
        if name not in known:
            raise unknown("workload", name, known)
    for rung in rungs:
        catalogue.check_rung(rung)
    if not sizes:
        return
    valid = {size for name in workloads or known for size in catalogue.sizes(name)}
    for size in sizes:
        if size not in valid:
            raise unknown("size", size, valid, f"the sizes of {', '.join(workloads) or 'all workloads'}")


def expand_plan(plan: Plan, catalogue: Catalogue) -> Expansion:
    """All combinations, each once, in the order of the plan: the cases that can be measured here, and the skips
    with their reasons."""
    excludes = [_resolve_exclude(rule, catalogue) for rule in plan.excludes]
    expansion = Expansion()
    known: set[tuple[Case, bool]] = set()
    for grid in plan.grids:
        for case in combinations(grid, catalogue):
            excluded = not grid.included and any(matches(case, rule) for rule in excludes)
            if excluded or (case, grid.auto_batch) in known:
                continue
            known.add((case, grid.auto_batch))
            if refusal := catalogue.refusal(case):
                expansion.skipped.append(Skip(case.key, *refusal))
            else:
                (expansion.searched if grid.auto_batch else expansion.cases).append(case)
    return expansion


def combinations(grid: Grid, catalogue: Catalogue) -> Iterator[Case]:
    """The cases of a grid in the order given, with the rungs innermost."""
    validate_grid(grid, catalogue)
    devices = [device for name in grid.device for device in catalogue.devices(name)]
    points_of = ((name, mode) for name in grid.workload for mode in catalogue.modes(name, grid.mode))
    for (workload, mode), device in itertools.product(points_of, devices):
        sizes = catalogue.sizes(workload, grid.smoke)
        points = itertools.product(*(grid.size.get(name, (default,)) for name, default in sizes.items()))
        batches = (1,) if grid.auto_batch else grid.batch or (catalogue.batch(workload, grid.smoke),)
        optimizers: Sequence[str | None] = (None,)
        if mode == "train":
            optimizers = grid.optimizer or (catalogue.optimizer(workload),)
        # The last axis varies fastest.
        axes: dict[str, Iterable[Any]] = {
            "precision": grid.precision,
            "batch": batches,
            "sizes": [dict(zip(sizes, point, strict=True)) for point in points],
            "feed": grid.feed,
            "layout": grid.layout,
            "optimizer": optimizers,
            "threads": grid.threads or (None,),
            "rung": grid.rung or catalogue.ladder(workload, device),
        }
        for values in itertools.product(*axes.values()):
            fields = {"workload": workload, "mode": mode, "device": device, **dict(zip(axes, values, strict=True))}
            fields |= catalogue.identity(workload)
            try:
                yield msgspec.convert(fields, Case)
            except msgspec.ValidationError as error:
                raise BadInput(f"{workload} on {fields['rung']} is not a case: {brief(error)}") from None


def matches(case: Case, rule: Mapping[str, Any]) -> bool:
    """Whether the case has, for every field that the rule names, one of its values."""
    for name, values in rule.items():
        if name == "size":
            if any(case.sizes.get(size) not in allowed for size, allowed in values.items()):
                return False
        elif name == "device":
            if case.device not in values and case.device_type not in values:
                return False
        elif getattr(case, name) not in values:
            return False
    return True


def _resolve_exclude(rule: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The exclude with its device names resolved. An unknown name is an error, because it would match nothing."""
    validate_names(catalogue, rule.get("workload", ()), rule.get("rung", ()), rule.get("size", ()))
    devices = [device for name in rule.get("device", ()) for device in catalogue.devices(name)]
    return {**rule, "device": tuple(devices)} if devices else dict(rule)


def nothing_to_do(skipped: Sequence[Skip]) -> BadInput:
    """Why an expansion has no cases."""
    if not skipped:
        return BadInput("nothing to do: the plan excludes all of its cases")
    subject = f"all {len(skipped)} combinations are" if len(skipped) > 1 else "this is"
    return BadInput(f"nothing to do: {subject} impossible here ({skipped[0].reason})")


def fingerprint(cases: list[Case], options: object) -> str:
    """Identifies a plan in a store, so that --resume finds an interrupted run of it."""
    text = msgspec.json.encode([sorted(case.key for case in cases), options], order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]
