"""The metrics that a rule may name: those that the guard watches, and what a paper measured otherwise."""

from tare.errors import unknown
from tare.guard.metrics import METRICS, Metric

# The figure of nvidia-smi, which papers report. It includes what the libraries take, so the guard has another one.
PROCESS_MEMORY = Metric(
    "device_process",
    "device memory of the whole process, as NVML counts it",
    "B",
    lambda round_: round_.device_memory.nvml if round_.device_memory else None,
    device_only=True,
)
STUDY_METRICS = {metric.name: metric for metric in (*METRICS, PROCESS_MEMORY)}


def study_metric(name: str, where: str = "") -> Metric:
    if name not in STUDY_METRICS:
        raise unknown("metric", name, STUDY_METRICS, where)
    return STUDY_METRICS[name]
