"""Groups of workloads: @zoo, @smoke, one per domain, and those that workloads declare themselves (@mlperf)."""

from tare.workloads.registry import all_workloads

# The package of the zoo's own workloads; a plug-in's workload is in @zoo only if it declares that.
OURS = "tare.workloads."
ZOO, SMOKE = "zoo", "smoke"
# A cross-section of all domains, each quick to build and run at its small sizes.
SMOKE_ZOO = (
    "mlp", "lennard_jones", "pyhpc_equation_of_state", "mnist_cnn", "dit", "lstm", "nanogpt", "moe", "rnnt",
    "conv_tasnet", "dlrm", "ncf", "soft_actor_critic", "dqn", "rgat", "stable_diffusion_text_encoder",
)  # fmt: skip


def all_groups() -> dict[str, tuple[str, ...]]:
    """The workloads of every group, by its name without the @."""
    groups: dict[str, list[str]] = {ZOO: []}
    for name, workload in all_workloads().items():
        own = type(workload.definition).__module__.startswith(OURS)
        for group in dict.fromkeys(((ZOO,) if own else ()) + (workload.domain, *workload.groups)):
            groups.setdefault(group, []).append(name)
    groups[SMOKE] = [name for name in SMOKE_ZOO if name in all_workloads()]
    return {group: tuple(names) for group, names in sorted(groups.items())}
