"""Groups of workloads: @zoo, @smoke, one for each domain, and those that workloads name themselves (@mlperf)."""

from tare.workloads.registry import all_workloads

# Where the zoo's own workloads live; a plug-in's workload belongs to @zoo only if it says so.
OURS = "tare.workloads."
ZOO, SMOKE = "zoo", "smoke"
# A cross-section of all domains whose members are built and run in a moment at their small sizes.
SMOKE_ZOO = (
    "mlp", "lennard_jones", "pyhpc_equation_of_state", "mnist_cnn", "dit", "lstm", "nanogpt", "moe", "rnnt",
    "conv_tasnet", "dlrm", "ncf", "soft_actor_critic", "dqn", "rgat", "stable_diffusion_text_encoder",
)  # fmt: skip


def all_groups() -> dict[str, tuple[str, ...]]:
    """The workloads of every group, by name without the sign."""
    found: dict[str, list[str]] = {ZOO: []}
    for name, workload in all_workloads().items():
        own = type(workload.definition).__module__.startswith(OURS)
        for group in dict.fromkeys(((ZOO,) if own else ()) + (workload.domain, *workload.groups)):
            found.setdefault(group, []).append(name)
    found[SMOKE] = [name for name in SMOKE_ZOO if name in all_workloads()]
    return {group: tuple(names) for group, names in sorted(found.items())}
