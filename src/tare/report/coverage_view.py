"""Coverage for the terminal: the groups, the ratio, and a line a workload with what it alone brings."""

from collections.abc import Mapping

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from tare.report.coverage import PUBLISHED_RATIO, RATIO_OF, RATIO_TO, REGISTRIES, Coverage, Entry
from tare.report.table import FittingTable

# Names shown of what a workload alone brings; the JSON has them all.
SHOWN = 2


def coverage_view(found: Coverage) -> RenderableType:
    parts: list[RenderableType] = [_groups(found), Text(""), *_ratio(found), _workloads(found)]
    for entry in found.workloads:
        parts += [Text(f"  {entry.workload} {m} failed: {why}", style="red") for m, why in entry.failures.items()]
    reasons: dict[str, list[str]] = {}
    for entry in found.workloads:
        for mode, why in entry.skipped.items():
            reasons.setdefault(f"{mode}: {why}", []).append(entry.workload)
    parts += [Text(f"  {', '.join(names)} not run for {why}", style="dim") for why, names in reasons.items()]
    return Stack(*parts)


def _groups(found: Coverage) -> RenderableType:
    heads = ("covered", *REGISTRIES.values(), "ran")
    rows = [
        [f"@{group.group}", *_shares(found, group.covered), f"{group.ran} of {group.workloads}"]
        for group in found.groups
    ]
    ran = sum(bool(entry.modes) for entry in found.workloads)
    rows.append(["all asked for", *_shares(found, found.total), f"{ran} of {len(found.workloads)}"])
    rows.append([f"in torch {found.torch}", *(str(found.registries[name]) for name in REGISTRIES), ""])
    return FittingTable(heads, rows, right=heads[1:], folds={"covered": 8})


def _ratio(found: Coverage) -> list[RenderableType]:
    if not found.ratio:
        return []
    shown = ", ".join(
        f"{title} {found.ratio[name]:.2f}" for name, title in REGISTRIES.items() if name in found.ratio
    )
    text = f"@{RATIO_OF} over @{RATIO_TO}: {shown} (the TorchBench paper has {PUBLISHED_RATIO} for the Python API)"
    return [Text(text), Text("")]


def _workloads(found: Coverage) -> RenderableType:
    heads = ("workload", "API", "ATen", "core", "alone", "of which")
    rows = [
        [entry.workload, *(str(entry.covered.counts()[name]) for name in REGISTRIES), *_alone(entry)]
        for entry in found.workloads
        if entry.modes
    ]
    return FittingTable(heads, rows, right=heads[1:5], folds={"workload": 0, "of which": 0})


def _alone(entry: Entry) -> tuple[str, str]:
    """What no other workload here covers; a core operator is an ATen operator, and counts once."""
    names = [*(n.removeprefix("torch.") for n in entry.alone.api), *entry.alone.aten]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return str(len(names)), ", ".join(names[:SHOWN]) + more


def _shares(found: Coverage, counts: Mapping[str, int]) -> list[str]:
    return [_share(counts[name], found.registries[name]) for name in REGISTRIES]


def _share(count: int, of: int) -> str:
    return f"{count} {count / of:6.1%}" if of else str(count)
