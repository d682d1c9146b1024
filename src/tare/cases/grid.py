"""A grid: lists of values for the fields of a case, and the cases they make."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tare.cases.case import FEEDS, LAYOUTS, MODES, OPTIMIZERS, PRECISIONS, Case
from tare.errors import BadInput, brief, quote, unknown, unknown_workload

CHOICES: dict[str, tuple[str, ...]] = {
    "mode": MODES,
    "precision": PRECISIONS,
    "feed": FEEDS,
    "layout": LAYOUTS,
    "optimizer": OPTIMIZERS,
}
FIELDS = (
    "workload", "rung", "mode", "device", "precision", "batch", "size", "feed", "layout", "optimizer", "threads",
)  # fmt: skip
# What a grid may say beside its fields, and an exclude may not.
GRID_FIELDS = (*FIELDS, "smoke")
AUTO = "auto"
# No machine has so many cores, and with many more a worker is busy making threads until its timeout. Not this
# machine's cores: a plan should mean the same on any.
MOST_THREADS = 4096
MOST_CASES = 100_000


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """None means: the default (of the workload, the device, the ladder). `auto_batch` leaves the batch open to be
    searched for; `smoke` takes the small sizes of the workloads where none are named."""

    workload: tuple[str, ...]
    rung: tuple[str, ...] | None = None
    mode: tuple[str, ...] = ("infer",)
    device: tuple[str, ...] = ("auto",)
    precision: tuple[str, ...] = ("fp32",)
    batch: tuple[int, ...] | None = None
    size: dict[str, tuple[int, ...]] = {}
    feed: tuple[str, ...] = ("device",)
    layout: tuple[str, ...] = ("contiguous",)
    optimizer: tuple[str, ...] | None = None
    threads: tuple[int, ...] | None = None
    smoke: bool = False
    auto_batch: bool = False


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
    def ladder(self, workload: str, device: str) -> list[str]: ...
    def check_rung(self, name: str) -> None: ...
    def refusal(self, case: Case) -> tuple[str, str] | None: ...


class Expansion(msgspec.Struct):
    """`searched` are cases whose batch is still to be found: it stands at 1."""

    cases: list[Case] = []
    skipped: list[Skip] = []
    searched: list[Case] = []


def nothing_to_do(skipped: Sequence[Skip]) -> BadInput:
    """Why an expansion without cases has none."""
    if not skipped:
        return BadInput("nothing to do: the plan excludes all of its cases")
    what = f"all {len(skipped)} combinations are" if len(skipped) > 1 else "this is"
    return BadInput(f"nothing to do: {what} impossible here ({skipped[0].reason})")


def make_grid(table: Mapping[str, Any], where: str) -> Grid:
    """A grid from a TOML table or the command line; scalars stand for lists of one."""
    rest = dict(table)
    smoke = rest.pop("smoke", False)
    if not isinstance(smoke, bool):
        raise BadInput(f"{where}: 'smoke' is true or false, not {quote(smoke)}")
    auto = "batch" in rest and _listed(rest["batch"]) == [AUTO]
    if auto:
        del rest["batch"]
    values = make_filter(rest, where, GRID_FIELDS)
    if not values.get("workload"):
        raise BadInput(f"{where}: a grid names at least one workload")
    return Grid(**values, smoke=smoke, auto_batch=auto)


def make_filter(table: Mapping[str, Any], where: str, valid: Sequence[str] = FIELDS) -> dict[str, Any]:
    """The checked values of a table that may leave any field open (an exclude, or a grid before defaults)."""
    checked: dict[str, Any] = {}
    for name, value in table.items():
        if name not in FIELDS:
            raise unknown("key", name, valid, where)
        if name == "size":
            if not isinstance(value, Mapping):
                raise BadInput(f"{where}: 'size' is a table of name = value")
            if not value:
                raise BadInput(f"{where}: 'size' is an empty table")
            checked[name] = {str(k): _counts(v, f"size.{k}", where) for k, v in value.items()}
        elif name in ("batch", "threads"):
            checked[name] = _counts(value, name, where)
        else:
            checked[name] = _names(value, name, where)
    return checked


def expand(grid: Grid, catalogue: Catalogue) -> Expansion:
    """Every combination, in the order given: cases that can be measured here, and the skips with reasons."""
    check_names(catalogue, grid.workload, grid.rung or (), grid.size)
    points = math.prod(len(values) for values in _axes(grid))
    if points > MOST_CASES:
        raise BadInput(f"the grid has {points} combinations; split it into plans of at most {MOST_CASES}")
    if grid.optimizer and "train" not in grid.mode:
        raise BadInput(f"optimizer {', '.join(grid.optimizer)} is for training: want mode train")
    found = Expansion()
    for case in _combinations(grid, catalogue):
        refused = catalogue.refusal(case)
        if refused:
            found.skipped.append(Skip(case.key, *refused))
        else:
            (found.searched if grid.auto_batch else found.cases).append(case)
    return found


def matches(case: Case, rule: Mapping[str, Any]) -> bool:
    """Whether a case has, for every field that the rule names, one of its values."""
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


def _combinations(grid: Grid, catalogue: Catalogue) -> Iterator[Case]:
    devices = [device for name in grid.device for device in catalogue.devices(name)]
    for workload, mode, device in itertools.product(grid.workload, grid.mode, devices):
        sizes = catalogue.sizes(workload, grid.smoke)
        batches = (1,) if grid.auto_batch else grid.batch or (catalogue.batch(workload, grid.smoke),)
        axes = [grid.size.get(name, (default,)) for name, default in sizes.items()]
        optimizers: Sequence[str | None] = (None,)
        if mode == "train":
            optimizers = grid.optimizer or (catalogue.optimizer(workload),)
        for precision, batch, point, feed, layout, optimizer, threads, rung in itertools.product(
            grid.precision,
            batches,
            itertools.product(*axes),
            grid.feed,
            grid.layout,
            optimizers,
            grid.threads or (None,),
            grid.rung or catalogue.ladder(workload, device),
        ):
            yield _case(
                workload=workload,
                rung=rung,
                mode=mode,
                device=device,
                precision=precision,
                batch=batch,
                sizes=dict(zip(sizes, point, strict=True)),
                feed=feed,
                layout=layout,
                optimizer=optimizer,
                threads=threads,
            )


def _case(**fields: Any) -> Case:
    try:
        return msgspec.convert(fields, Case)
    except msgspec.ValidationError as error:
        raise BadInput(f"{fields['workload']} on {fields['rung']} is not a case: {brief(error)}") from None


def check_names(
    catalogue: Catalogue, workloads: Sequence[str], rungs: Iterable[str], sizes: Iterable[str]
) -> None:
    """Refuses a name that nothing has; a size must be one of the workloads named, or of any if none is."""
    known = catalogue.workload_names()
    for name in workloads:
        if name not in known:
            raise unknown_workload(name, known)
    for rung in rungs:
        catalogue.check_rung(rung)
    valid = {size for name in workloads or known for size in catalogue.sizes(name)}
    for size in sizes:
        if size not in valid:
            raise unknown("size", size, valid, f"the sizes of {', '.join(workloads) or 'all workloads'}")


def _axes(grid: Grid) -> list[Sequence[Any]]:
    fields = [getattr(grid, name) or (None,) for name in FIELDS if name != "size"]
    return [*fields, *grid.size.values()]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _names(value: Any, name: str, where: str) -> tuple[str, ...]:
    values = _listed(value)
    if not values:
        raise BadInput(f"{where}: '{name}' is an empty list")
    for item in values:
        if not isinstance(item, str):
            raise BadInput(f"{where}: '{name}' holds {quote(item)}, which is not a name")
        if name in CHOICES and item not in CHOICES[name]:
            raise unknown(name, item, CHOICES[name], where)
    return tuple(dict.fromkeys(values))


def _counts(value: Any, name: str, where: str) -> tuple[int, ...]:
    values = _listed(value)
    if not values:
        raise BadInput(f"{where}: '{name}' is an empty list")
    for item in values:
        if isinstance(item, bool) or not isinstance(item, int) or not 1 <= item <= 2**40:
            auto = " (or 'auto' alone)" if name == "batch" else ""
            raise BadInput(f"{where}: '{name}' holds {quote(item)}, which is not a positive whole number{auto}")
        if name == "threads" and item > MOST_THREADS:
            raise BadInput(f"{where}: 'threads' holds {item}, and {MOST_THREADS} are the most")
    return tuple(dict.fromkeys(values))
