"""Coverage: how much of torch's registries the workloads touch, as figures and for the terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tare.cases.plan import Skip
from tare.protocol.messages import Covered, Registered
from tare.records.record import Failure
from tare.report.table import FittingTable

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
    for skip in skipped:
        name, _, mode = skip.key.split("/")[:3]
        _entry(entries, name).skipped[mode] = skip.reason
    for name, mode, answer in answers:
        _add(_entry(entries, name), mode, answer)
    workloads = sorted(entries.values(), key=lambda entry: entry.workload)
    for registry in REGISTRIES:
        users = Counter(name for entry in workloads for name in entry.covered[registry])
        for entry in workloads:
            entry.alone[registry] = [name for name in entry.covered[registry] if users[name] == 1]
    union = _union(workloads)
    known = {registry: getattr(registered, registry) for registry in REGISTRIES}
    by_group = {name: _group(name, members, entries) for name, members in groups.items()}
    return Coverage(
        torch=registered.torch,
        device=device,
        registries=_counts(known),
        total=_counts(union),
        groups=list(by_group.values()),
        ratio=_ratio(by_group),
        workloads=workloads,
        missing={registry: sorted({*known[registry]} - {*union[registry]}) for registry in REGISTRIES},
    )


def _entry(entries: dict[str, WorkloadCoverage], name: str) -> WorkloadCoverage:
    if name not in entries:
        covered: Names = {registry: [] for registry in REGISTRIES}
        entries[name] = WorkloadCoverage(workload=name, covered=covered, alone=dict(covered))
    return entries[name]


def _add(entry: WorkloadCoverage, mode: str, answer: Covered | Failure) -> None:
    if isinstance(answer, Failure):
        entry.failures[mode] = f"{answer.cause} in {answer.stage or 'start'}: {answer.message}"
        return
    # On several devices a mode comes more than once.
    entry.modes = list(dict.fromkeys([*entry.modes, mode]))
    for registry in REGISTRIES:
        entry.covered[registry] = sorted({*entry.covered[registry], *getattr(answer, registry)})
    entry.others = sorted({*entry.others, *answer.others})


def _union(entries: Sequence[WorkloadCoverage]) -> Names:
    return {
        registry: sorted({name for entry in entries for name in entry.covered[registry]})
        for registry in REGISTRIES
    }


def _counts(names: Names) -> Counts:
    return {registry: len(names[registry]) for registry in REGISTRIES}


def _group(name: str, members: Sequence[str], entries: Mapping[str, WorkloadCoverage]) -> GroupCoverage:
    measured = [entries[member] for member in members if member in entries]
    ran = sum(bool(entry.modes) for entry in measured)
    return GroupCoverage(group=name, workloads=len(members), ran=ran, covered=_counts(_union(measured)))


def _ratio(groups: Mapping[str, GroupCoverage]) -> dict[str, float] | None:
    if RATIO_OF not in groups or RATIO_TO not in groups:
        return None
    of, to = groups[RATIO_OF].covered, groups[RATIO_TO].covered
    return {registry: of[registry] / to[registry] for registry in REGISTRIES if to[registry]}


def coverage_view(coverage: Coverage) -> RenderableType:
    """The groups, the ratio, and a line per workload with what it alone covers."""
    parts: list[RenderableType] = [_groups_view(coverage), Text("")]
    if ratios := coverage.ratio:
        shown = ", ".join(f"{title} {ratios[name]:.2f}" for name, title in REGISTRIES.items() if name in ratios)
        paper = f"(the TorchBench paper has {PUBLISHED_RATIO} for the Python API)"
        parts += [Text(f"@{RATIO_OF} over @{RATIO_TO}: {shown} {paper}"), Text("")]
    parts.append(_workloads_view(coverage))
    reasons: dict[str, list[str]] = {}
    for entry in coverage.workloads:
        parts += [Text(f"  {entry.workload} {m} failed: {why}", style="red") for m, why in entry.failures.items()]
        for mode, why in entry.skipped.items():
            reasons.setdefault(f"{mode}: {why}", []).append(entry.workload)
    parts += [Text(f"  {', '.join(names)} not run for {why}", style="dim") for why, names in reasons.items()]
    return Group(*parts)


def _groups_view(coverage: Coverage) -> RenderableType:
    def shares(counts: Counts) -> list[str]:
        pairs = [(counts[registry], coverage.registries[registry]) for registry in REGISTRIES]
        return [f"{count} {count / total:6.1%}" if total else str(count) for count, total in pairs]

    heads = ("covered", *REGISTRIES.values(), "ran")
    rows = [
        [f"@{group.group}", *shares(group.covered), f"{group.ran} of {group.workloads}"]
        for group in coverage.groups
    ]
    ran = sum(bool(entry.modes) for entry in coverage.workloads)
    rows.append(["all asked for", *shares(coverage.total), f"{ran} of {len(coverage.workloads)}"])
    rows.append([f"in torch {coverage.torch}", *(str(coverage.registries[name]) for name in REGISTRIES), ""])
    return FittingTable(heads, rows, right=heads[1:], folds={"covered": 8})


def _workloads_view(coverage: Coverage) -> RenderableType:
    heads = ("workload", "API", "ATen", "core", "alone", "of which")
    rows = []
    for entry in coverage.workloads:
        # A core operator is an ATen operator, and counts once.
        names = [*(name.removeprefix("torch.") for name in entry.alone["api"]), *entry.alone["aten"]]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        counts = map(str, _counts(entry.covered).values())
        rows.append([entry.workload, *counts, str(len(names)), ", ".join(names[:SHOWN]) + more])
    ran = [row for row, entry in zip(rows, coverage.workloads, strict=True) if entry.modes]
    return FittingTable(heads, ran, right=heads[1:5], folds={"workload": 0, "of which": 0})
