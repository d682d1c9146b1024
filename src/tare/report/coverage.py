"""Coverage: how much of torch's registries the workloads touch, as figures and for the terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tare.cases.plan import Skip
from tare.protocol.messages import Covered, Registered
from tare.records.record import Failure
from tare.report.view import FittingTable, View

# The registries, in the order in which they are shown.
REGISTRIES = {"api": "Python API", "aten": "ATen", "core": "core ATen"}
# The TorchBench paper, section 2.3: TorchBench covers this many times as much of the Python API as MLPerf.
PUBLISHED_RATIO = 2.3
RATIO_OF, RATIO_TO = "zoo", "mlperf"
# Names shown of what a workload alone covers; the JSON has them all.
SHOWN = 2

# By registry: sorted names, or how many.
Names = dict[str, list[str]]
Counts = dict[str, int]


class WorkloadCoverage(msgspec.Struct, kw_only=True):
    """One workload: what it covers, what of it no other workload here covers, and what did not run."""

    workload: str
    modes: list[str] = []
    covered: Names
    alone: Names
    others: list[str] = []
    failures: dict[str, str] = {}
    skipped: dict[str, str] = {}


class GroupCoverage(msgspec.Struct, kw_only=True):
    """`ran` of its `workloads` covered something."""

    group: str
    workloads: int
    ran: int
    covered: Counts


class Coverage(msgspec.Struct, kw_only=True):
    torch: str
    device: str
    registries: Counts
    total: Counts
    groups: list[GroupCoverage]
    # @zoo over @mlperf, where all of both were asked for.
    ratio: dict[str, float] | None
    workloads: list[WorkloadCoverage]
    # What no workload covers, so that the next one can be chosen.
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
    entries: dict[str, WorkloadCoverage] = {}

    def entry_of(name: str) -> WorkloadCoverage:
        return entries.setdefault(name, WorkloadCoverage(workload=name, covered=_union([]), alone=_union([])))

    for skip in skipped:
        name, _, mode = skip.key.split("/")[:3]
        entry_of(name).skipped[mode] = skip.reason
    for name, mode, answer in answers:
        entry = entry_of(name)
        if isinstance(answer, Failure):
            entry.failures[mode] = f"{answer.cause} in {answer.stage or 'start'}: {answer.message}"
            continue
        # On several devices a mode comes more than once.
        entry.modes = list(dict.fromkeys([*entry.modes, mode]))
        entry.others = sorted({*entry.others, *answer.others})
        for registry in REGISTRIES:
            entry.covered[registry] = sorted({*entry.covered[registry], *getattr(answer, registry)})
    workloads = sorted(entries.values(), key=lambda entry: entry.workload)
    for registry in REGISTRIES:
        users = Counter(name for entry in workloads for name in entry.covered[registry])
        for entry in workloads:
            entry.alone[registry] = [name for name in entry.covered[registry] if users[name] == 1]
    union = _union(workloads)
    known = {registry: getattr(registered, registry) for registry in REGISTRIES}
    by_group = {name: _group(name, members, entries) for name, members in groups.items()}
    ratio = None
    if RATIO_OF in by_group and RATIO_TO in by_group:
        of, to = by_group[RATIO_OF].covered, by_group[RATIO_TO].covered
        ratio = {registry: of[registry] / to[registry] for registry in REGISTRIES if to[registry]}
    return Coverage(
        torch=registered.torch,
        device=device,
        registries=_counts(known),
        total=_counts(union),
        groups=list(by_group.values()),
        ratio=ratio,
        workloads=workloads,
        missing={registry: sorted({*known[registry]} - {*union[registry]}) for registry in REGISTRIES},
    )


def _union(entries: Sequence[WorkloadCoverage]) -> Names:
    names = {registry: {name for each in entries for name in each.covered[registry]} for registry in REGISTRIES}
    return {registry: sorted(names[registry]) for registry in REGISTRIES}


def _counts(names: Names) -> Counts:
    return {registry: len(names[registry]) for registry in REGISTRIES}


def _group(name: str, members: Sequence[str], entries: Mapping[str, WorkloadCoverage]) -> GroupCoverage:
    measured = [entries[member] for member in members if member in entries]
    ran = sum(bool(entry.modes) for entry in measured)
    return GroupCoverage(group=name, workloads=len(members), ran=ran, covered=_counts(_union(measured)))


def coverage_view(coverage: Coverage) -> View:
    """The groups, the ratio, and a line per workload with what it alone covers."""
    view = View().put(_groups_table(coverage))
    if ratios := coverage.ratio:
        shown = ", ".join(f"{title} {ratios[name]:.2f}" for name, title in REGISTRIES.items() if name in ratios)
        paper = f"(the TorchBench paper has {PUBLISHED_RATIO} for the Python API)"
        view.show(View().add("plain", f"@{RATIO_OF} over @{RATIO_TO}: {shown} {paper}"))
    rows = [_workload_cells(entry) for entry in coverage.workloads if entry.modes]
    view.show(View().put(FittingTable(rows, folds={"workload": 0, "of which": 0})))
    reasons: dict[str, list[str]] = {}
    for entry in coverage.workloads:
        view.add("failure", *(f"{entry.workload} {mode} failed: {why}" for mode, why in entry.failures.items()))
        for mode, why in entry.skipped.items():
            reasons.setdefault(f"{mode}: {why}", []).append(entry.workload)
    return view.add("aside", *(f"{', '.join(names)} not run for {why}" for why, names in reasons.items()))


def _groups_table(coverage: Coverage) -> FittingTable:
    def cells(name: str, counts: Counts, ran: str) -> dict[str, str]:
        shares = {}
        for registry, title in REGISTRIES.items():
            total = coverage.registries[registry] if ran else 0
            shares[title] = str(counts[registry]) + (f" {counts[registry] / total:6.1%}" if total else "")
        return {"covered": name, **shares, "ran": ran}

    rows = [cells(f"@{each.group}", each.covered, f"{each.ran} of {each.workloads}") for each in coverage.groups]
    ran = sum(bool(entry.modes) for entry in coverage.workloads)
    rows.append(cells("all asked for", coverage.total, f"{ran} of {len(coverage.workloads)}"))
    rows.append(cells(f"in torch {coverage.torch}", coverage.registries, ""))
    return FittingTable(rows, folds={"covered": 8})


def _workload_cells(entry: WorkloadCoverage) -> dict[str, str]:
    # A core operator is an ATen operator, and counts once.
    names = [*(name.removeprefix("torch.") for name in entry.alone["api"]), *entry.alone["aten"]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    counts = {title: str(len(entry.covered[name])) for name, title in REGISTRIES.items()}
    shown = ", ".join(names[:SHOWN]) + more
    return {"workload": entry.workload, **counts, "alone": str(len(names)), "of which": shown}
