"""Coverage: how much of torch's surface workloads touch, against its registries. Figures here; views beside."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tare.cases.grid import Skip
from tare.protocol.messages import Covered, Registered
from tare.records.record import Failure

# The registries, in the order in which they are shown.
REGISTRIES = {"api": "Python API", "aten": "ATen", "core": "core ATen"}
# The TorchBench paper, section 2.3: TorchBench covers this many times as much of the Python API as MLPerf.
PUBLISHED_RATIO = 2.3
RATIO_OF, RATIO_TO = "zoo", "mlperf"


class Names(msgspec.Struct, kw_only=True):
    """Names of each registry, sorted."""

    api: list[str] = []
    aten: list[str] = []
    core: list[str] = []

    def counts(self) -> dict[str, int]:
        return {registry: len(getattr(self, registry)) for registry in REGISTRIES}


class Entry(msgspec.Struct, kw_only=True):
    """One workload: what it covers, what of it no other workload here covers, and what did not run."""

    workload: str
    modes: list[str] = []
    covered: Names
    alone: Names
    others: list[str] = []
    failures: dict[str, str] = {}
    skipped: dict[str, str] = {}


class Group(msgspec.Struct, kw_only=True):
    """`ran` of its `workloads` covered something."""

    group: str
    workloads: int
    ran: int
    covered: dict[str, int]


class Coverage(msgspec.Struct, kw_only=True):
    torch: str
    device: str
    registries: dict[str, int]
    total: dict[str, int]
    groups: list[Group]
    # @zoo over @mlperf, where all of both were asked for.
    ratio: dict[str, float] | None
    workloads: list[Entry]
    # What no workload covered, so that the next one can be chosen.
    missing: Names

    @property
    def failed(self) -> bool:
        return any(entry.failures for entry in self.workloads)


def make_coverage(
    registered: Registered,
    device: str,
    answers: Iterable[tuple[str, str, Covered | Failure]],
    skipped: Iterable[Skip],
    groups: Mapping[str, Sequence[str]],
) -> Coverage:
    """An answer is of a workload in a mode; `groups` are those whose members were all asked for."""
    entries: dict[str, Entry] = {}
    for skip in skipped:
        name, _, mode = skip.key.split("/")[:3]
        _entry(entries, name).skipped[mode] = skip.reason
    for name, mode, answer in answers:
        _add(_entry(entries, name), mode, answer)
    found = sorted(entries.values(), key=lambda entry: entry.workload)
    _find_alone(found)
    union = _union(found)
    by_group = {name: _group(name, members, entries) for name, members in groups.items()}
    every = Names(api=registered.api, aten=registered.aten, core=registered.core)
    return Coverage(
        torch=registered.torch,
        device=device,
        registries=every.counts(),
        total=union.counts(),
        groups=list(by_group.values()),
        ratio=_ratio(by_group),
        workloads=found,
        missing=_names(lambda registry: set(getattr(every, registry)) - set(getattr(union, registry))),
    )


def _entry(entries: dict[str, Entry], name: str) -> Entry:
    return entries.setdefault(name, Entry(workload=name, covered=Names(), alone=Names()))


def _add(entry: Entry, mode: str, answer: Covered | Failure) -> None:
    if isinstance(answer, Failure):
        entry.failures[mode] = f"{answer.cause} in {answer.stage or 'start'}: {answer.message}"
        return
    # On several devices a mode comes more than once.
    entry.modes = list(dict.fromkeys([*entry.modes, mode]))
    before = entry.covered
    entry.covered = _names(lambda registry: {*getattr(before, registry), *getattr(answer, registry)})
    entry.others = sorted({*entry.others, *answer.others})


def _find_alone(entries: list[Entry]) -> None:
    for registry in REGISTRIES:
        seen: dict[str, int] = {}
        for entry in entries:
            for name in getattr(entry.covered, registry):
                seen[name] = seen.get(name, 0) + 1
        for entry in entries:
            setattr(entry.alone, registry, [n for n in getattr(entry.covered, registry) if seen[n] == 1])


def _union(entries: Iterable[Entry]) -> Names:
    kept = list(entries)
    return _names(lambda registry: {name for entry in kept for name in getattr(entry.covered, registry)})


def _group(name: str, members: Sequence[str], entries: Mapping[str, Entry]) -> Group:
    there = [entries[member] for member in members if member in entries]
    ran = sum(bool(entry.modes) for entry in there)
    return Group(group=name, workloads=len(members), ran=ran, covered=_union(there).counts())


def _ratio(groups: Mapping[str, Group]) -> dict[str, float] | None:
    if RATIO_OF not in groups or RATIO_TO not in groups:
        return None
    of, to = groups[RATIO_OF].covered, groups[RATIO_TO].covered
    return {registry: of[registry] / to[registry] for registry in REGISTRIES if to[registry]}


def _names(of: Callable[[str], set[str]]) -> Names:
    return Names(**{registry: sorted(of(registry)) for registry in REGISTRIES})
