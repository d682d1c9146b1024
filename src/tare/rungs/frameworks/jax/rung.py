"""JAX: the zoo's simplest networks as functions, compiled by XLA (`jax`) or run op by op (`jax:eager`)."""

import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec

from tare.cases.case import Case
from tare.protocol.messages import Missing
from tare.rungs.base import Program, Rung
from tare.rungs.frameworks.program import BY_NAME
from tare.rungs.registry import rung, split_name
from tare.workloads.base import Workload

# Those of tare.rungs.frameworks.jax.networks, named here so that a plan can be checked without importing JAX.
WORKLOADS = ("lstm", "mlp", "mnist_cnn", "nanogpt", "resnet50")


@rung
class Jax(Rung):
    name = "jax"
    summary = "JAX: the network as a function, compiled by XLA"
    variants = {"eager": "each operation dispatched by itself"}
    not_by_default = {"": BY_NAME, "eager": BY_NAME}
    distribution = "jax"

    def available(self, device_type: str) -> Missing | None:
        if find_spec("jax") is None:
            return Missing("JAX is not installed", "tare env create jax")
        if device_type == "cuda" and not _cuda_plugins():
            return Missing("this JAX has no CUDA plugin", f"pip install 'jax[cuda{_cuda_version()}]'")
        return None

    def supports(self, case: Case, workload: Workload) -> str | None:
        if workload.name not in WORKLOADS:
            return f"it is written for {', '.join(WORKLOADS)}"
        if case.device_type not in ("cpu", "cuda"):
            return "it runs on the CPU and on CUDA devices"
        if case.precision == "amp-fp16":
            return "it has no loss scaling: use amp-bf16"
        if (workload.name, case.precision, case.device_type) == ("nanogpt", "fp16", "cpu"):
            return "XLA has no attention in float16 for the CPU: use bf16"
        if case.feed != "device":
            return "it keeps its batch on the device: only --feed device"
        return None

    def optimisations(self, case: Case) -> Sequence[str]:
        return () if split_name(case.rung)[1] == "eager" else ("operators fused by XLA",)

    def prepare(self, workload: Workload, case: Case) -> Program:
        prepare_process(case)
        from tare.rungs.frameworks.jax.program import JaxProgram

        return JaxProgram(workload, case)


def prepare_process(case: Case) -> None:
    """Sets what JAX reads when it is imported, and when it opens its devices. It must not reserve three quarters
    of a GPU's memory, or fall back to another device. On the CPU, steps would otherwise be dispatched to threads:
    steps that do not depend on each other would run at the same time, and a pipelined step would seem faster than
    it is."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["JAX_PLATFORMS"] = case.device_type
    if case.threads:
        os.environ["PJRT_NPROC"] = str(case.threads)
    import jax

    # For a process that had imported JAX before; its devices are opened later.
    jax.config.update("jax_platforms", case.device_type)
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def _cuda_plugins() -> list[str]:
    return [point.name for point in entry_points(group="jax_plugins") if "cuda" in point.name]


def _cuda_version() -> str:
    """The major version of CUDA that torch is built for: the one that the machine's driver is known to serve."""
    import torch

    return str(torch.version.cuda or "12").partition(".")[0]
