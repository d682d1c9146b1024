"""What a worker does for each kind of job other than a round. Each handler imports only what its job needs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.protocol import jobs, messages
from tare.rungs import all_rungs, get_rung
from tare.worker.preparation import one_core, use_cache
from tare.workloads import all_workloads, get_workload

Send = Callable[[Any], None]
Handler = Callable[[Any, Send], None]
HANDLERS: dict[type, Handler] = {}


def handles(job: type) -> Callable[[Handler], Handler]:
    """Registers the handler of a kind of job."""

    def register(handler: Handler) -> Handler:
        HANDLERS[job] = handler
        return handler

    return register


@handles(jobs.ReferenceJob)
def make_reference(job: jobs.ReferenceJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker import reference

    if job.widen:
        reference.widen_reference(job.case, Path(job.folder), job.data, job.steps)
        return
    with one_core(job.parallel):
        reference.make_reference(job.case, Path(job.folder), job.data, job.steps, job.parallel, job.storage)


@handles(jobs.StageJob)
def stage(job: jobs.StageJob, send: Send) -> None:
    """Exports, traces or compiles a workload for its executable. The time that takes is preparation."""
    from tare.rungs.native.rung import NativeRung
    from tare.rungs.torch.numerics import pin_flags
    from tare.worker.loss_curve import stage_batches

    rung = get_rung(job.case.rung)
    assert isinstance(rung, NativeRung)
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    flags = pin_flags(job.case)
    began = time.perf_counter()
    rung.stage(get_workload(job.case.workload), job.case, folder)
    if job.steps:
        stage_batches(job.case, job.data, job.steps, folder)
    send(messages.Prepared(build_s=0.0, prepare_s=time.perf_counter() - began, cache="cold", flags=flags))


@handles(jobs.CheckJob)
def check(job: jobs.CheckJob, send: Send) -> None:
    from tare.worker.loss_curve import read_evidence
    from tare.worker.reference import check_parity

    parity = check_parity(lambda: read_evidence(Path(job.evidence)), Path(job.reference), job.case)
    send(messages.Checked(parity))


@handles(jobs.CurveJob)
def curve(job: jobs.CurveJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker.loss_curve import follow

    use_cache(job.cache)
    follow(job)


@handles(jobs.FramesJob)
def frames(job: jobs.FramesJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker import call_stack

    use_cache(job.cache)
    call_stack.count(job)


@handles(jobs.ProbeJob)
def probe(job: jobs.ProbeJob, send: Send) -> None:  # noqa: ARG001
    """In a process of its own, because asking a device initialises its driver, which a fork would break."""
    import torch

    from tare.measure.devices import device_types, pci_bus_id
    from tare.measure.environment import collect

    devices = device_types()
    absent: dict[str, dict[str, messages.Absent]] = {}
    for device in devices:
        missing = {name: rung.available(device) for name, rung in all_rungs().items()}
        absent[device] = {n: messages.Absent(reason=m.reason, remedy=m.remedy) for n, m in missing.items() if m}
    gpus = range(torch.cuda.device_count()) if "cuda" in devices else ()
    send(
        messages.Probed(
            devices=devices,
            absent=absent,
            missing_packages=missing_packages(),
            gpus={f"cuda:{i}": pci_bus_id(i) for i in gpus},
            environment=collect(),
        )
    )


def missing_packages() -> dict[str, messages.Absent]:
    """The workloads that lack a package: which package, and the command that installs it."""
    return {
        name: messages.Absent(reason=f"needs {', '.join(workload.lacking())}", remedy=remedy)
        for name, workload in all_workloads().items()
        if (remedy := workload.remedy())
    }


@handles(jobs.ProfileJob)
def profile(job: jobs.ProfileJob, send: Send) -> None:
    from tare.worker import profiling

    profiling.profile(job, send)


@handles(jobs.CountJob)
def count(job: jobs.CountJob, send: Send) -> None:
    send(messages.Stage("count"))
    send(count_eager_step(job.case))


def count_eager_step(case: Case) -> messages.Counted:
    """The work of one step. Every rung computes the same; it is counted on eager, which hides no operator."""
    from tare.measure.work import count_work
    from tare.rungs.torch.numerics import pin_flags

    pin_flags(case)
    eager = msgspec.structs.replace(case, rung="eager")
    program = get_rung("eager").prepare(get_workload(case.workload), eager)
    # The first step creates what later steps only use, such as the optimizer's state.
    program.step()
    work = count_work(program.step)
    program.close()
    return messages.Counted(work)


@handles(jobs.PeakJob)
def peak(job: jobs.PeakJob, send: Send) -> None:
    """Measures one peak with the sampler that measures every case."""
    import torch

    from tare.measure.devices import make_clock
    from tare.measure.peaks import benchmarks
    from tare.measure.sampler import SamplingLimits, sample

    benchmark = next(benchmark for benchmark in benchmarks(job.device) if benchmark.name == job.name)
    send(messages.Stage("prepare"))
    device = torch.device(job.device)
    if device.index is not None:
        torch.cuda.set_device(device)
    if job.threads:
        torch.set_num_threads(job.threads)
    load = benchmark.make(job.device)
    send(messages.Capacity(amount=load.amount))
    send(messages.Stage("sample"))
    clock = make_clock(device)
    with torch.inference_mode():
        limits = SamplingLimits.of_clock(job.budget_s, job.width, clock)
        sample(load.step, clock, limits, lambda series: send(messages.Measured(series)))


@handles(jobs.RegistryJob)
def registry(job: jobs.RegistryJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker.coverage import registries

    send(registries())


@handles(jobs.CoverJob)
def cover(job: jobs.CoverJob, send: Send) -> None:
    from tare.worker import coverage

    send(coverage.cover(job.case))


@handles(jobs.InspectJob)
def inspect(job: jobs.InspectJob, send: Send) -> None:
    from tare.worker import inspection

    send(inspection.inspect(job.case))
