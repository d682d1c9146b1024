"""Coverage for the terminal: the groups, the ratio, and a line a workload with what it alone brings."""

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from tare.report.coverage import PUBLISHED_RATIO, RATIO_OF, RATIO_TO, REGISTRIES, Coverage, Entry
from tare.report.terminal import simple_table

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
    table = simple_table("covered", *REGISTRIES.values(), "ran", right=slice(1, None))
    for group in found.groups:
        shares = [_share(group.covered[name], found.registries[name]) for name in REGISTRIES]
        table.add_row(f"@{group.group}", *shares, f"{group.ran} of {group.workloads}")
    shares = [_share(found.total[name], found.registries[name]) for name in REGISTRIES]
    ran = sum(bool(entry.modes) for entry in found.workloads)
    table.add_row("all asked for", *shares, f"{ran} of {len(found.workloads)}")
    table.add_row(f"in torch {found.torch}", *(str(found.registries[name]) for name in REGISTRIES), "")
    return table


def _ratio(found: Coverage) -> list[RenderableType]:
    if not found.ratio:
        return []
    shown = ", ".join(
        f"{title} {found.ratio[name]:.2f}" for name, title in REGISTRIES.items() if name in found.ratio
    )
    text = f"@{RATIO_OF} over @{RATIO_TO}: {shown} (the TorchBench paper has {PUBLISHED_RATIO} for the Python API)"
    return [Text(text), Text("")]


def _workloads(found: Coverage) -> RenderableType:
    table = simple_table("workload")
    for title in ("API", "ATen", "core"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("alone", justify="right", no_wrap=True)
    table.add_column("of which", overflow="fold")
    for entry in found.workloads:
        if entry.modes:
            counts = entry.covered.counts()
            table.add_row(entry.workload, *(str(counts[name]) for name in REGISTRIES), *_alone(entry))
    return table


def _alone(entry: Entry) -> tuple[str, str]:
    """What no other workload here covers; a core operator is an ATen operator, and counts once."""
    names = [*(n.removeprefix("torch.") for n in entry.alone.api), *entry.alone.aten]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return str(len(names)), ", ".join(names[:SHOWN]) + more


def _share(count: int, of: int) -> str:
    return f"{count} {count / of:6.1%}" if of else str(count)
