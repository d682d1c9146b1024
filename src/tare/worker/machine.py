"""What this machine has, and the peaks it reaches."""

import torch

from tare.measure.devices import device_types, make_clock, pci_bus_id
from tare.measure.environment import collect
from tare.measure.peaks import SECONDS, benchmarks
from tare.measure.sampler import SamplingLimits, StepTimer, sample
from tare.protocol.jobs import PeakJob, ProbeJob
from tare.protocol.messages import MeasuredPeak, Missing, Probed, Send, Stage
from tare.records.record import Series
from tare.rungs import all_rungs
from tare.workloads import all_workloads


def probe(_: ProbeJob, __: Send) -> Probed:
    """In a process of its own, because asking a device initialises its driver, which a fork would break."""
    devices, rungs = device_types(), all_rungs().items()
    gpus = range(torch.cuda.device_count()) if "cuda" in devices else ()
    return Probed(
        devices=devices,
        absent={
            device: {name: missing for name, rung in rungs if (missing := rung.available(device))}
            for device in devices
        },
        missing_packages=missing_packages(),
        gpus={f"cuda:{i}": pci_bus_id(i) for i in gpus},
        environment=collect(),
    )


def missing_packages() -> dict[str, Missing]:
    """The workloads that lack a package: which package, and the command that installs it."""
    return {
        name: Missing(f"needs {', '.join(workload.lacking())}", remedy)
        for name, workload in all_workloads().items()
        if (remedy := workload.remedy())
    }


def measure_peak(job: PeakJob, send: Send) -> MeasuredPeak:
    """Measures one peak with the sampler that measures every case."""
    benchmark = next(benchmark for benchmark in benchmarks(job.device) if benchmark.name == job.name)
    send(Stage("prepare"))
    device = torch.device(job.device)
    if device.index is not None:
        torch.cuda.set_device(device)
    if job.threads:
        torch.set_num_threads(job.threads)
    load = benchmark.make()
    send(Stage("sample"))
    clock = make_clock(device)
    series: list[Series] = []
    with torch.inference_mode():
        sample(StepTimer(load.step, clock), SamplingLimits(job.budget_s, job.width), series.append)
    seconds = min(next(each for each in series if each.kind == "pipelined").step_seconds())
    return MeasuredPeak(seconds if benchmark.unit == SECONDS else load.amount / seconds)
