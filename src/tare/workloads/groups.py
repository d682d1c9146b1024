"""Groups of workloads: @zoo, one for each domain, and those that workloads name themselves (@mlperf)."""

from tare.workloads.registry import all_workloads

# Where the zoo's own workloads live; a plug-in's workload belongs to @zoo only if it says so.
OURS = "tare.workloads."
ZOO = "zoo"


def all_groups() -> dict[str, tuple[str, ...]]:
    """The workloads of every group, by name without the sign."""
    found: dict[str, list[str]] = {ZOO: []}
    for name, workload in all_workloads().items():
        own = type(workload.definition).__module__.startswith(OURS)
        for group in dict.fromkeys(((ZOO,) if own else ()) + (workload.domain, *workload.groups)):
            found.setdefault(group, []).append(name)
    return {group: tuple(names) for group, names in sorted(found.items())}
