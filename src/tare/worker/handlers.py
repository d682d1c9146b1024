"""What a worker does for each kind of job, beside measuring. It imports only what its own job needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.protocol import jobs, messages
from tare.worker.compiler_cache import use_cache

Send = Callable[[Any], None]
Duty = Callable[[Any, Send], None]
DUTIES: dict[type, Duty] = {}


def does(job: type) -> Callable[[Duty], Duty]:
    """Registers the function that does a kind of job."""

    def register(duty: Duty) -> Duty:
        DUTIES[job] = duty
        return duty

    return register


@does(jobs.ReferenceJob)
def reference(job: jobs.ReferenceJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker.cpu_limits import one_core
    from tare.worker.reference import make_reference, widen_reference

    if job.widen:
        widen_reference(job.case, Path(job.folder), job.data, job.steps)
        return
    with one_core(job.parallel):
        make_reference(job.case, Path(job.folder), job.data, job.steps, job.parallel, job.storage)


@does(jobs.StageJob)
def stage(job: jobs.StageJob, send: Send) -> None:
    from tare.worker import executables

    send(executables.stage(job))


@does(jobs.CheckJob)
def check(job: jobs.CheckJob, send: Send) -> None:
    from tare.worker import executables

    send(executables.check(job))


@does(jobs.CurveJob)
def curve(job: jobs.CurveJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker.loss_curve import follow

    use_cache(job.cache)
    follow(job)


@does(jobs.FramesJob)
def frames(job: jobs.FramesJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker import call_stack

    use_cache(job.cache)
    call_stack.count(job)


@does(jobs.ProbeJob)
def probe(job: jobs.ProbeJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker import probe

    send(probe.probe())


@does(jobs.ProfileJob)
def profile(job: jobs.ProfileJob, send: Send) -> None:
    from tare.worker import profiling

    profiling.profile(job, send)


@does(jobs.CountJob)
def count(job: jobs.CountJob, send: Send) -> None:
    from tare.worker import counting

    send(messages.Stage("count"))
    send(counting.count(job.case))


@does(jobs.PeakJob)
def peak(job: jobs.PeakJob, send: Send) -> None:
    from tare.worker.peaks import measure_peak

    measure_peak(job, send)


@does(jobs.RegistryJob)
def registry(job: jobs.RegistryJob, send: Send) -> None:  # noqa: ARG001
    from tare.worker.coverage import registries

    send(registries())


@does(jobs.CoverJob)
def cover(job: jobs.CoverJob, send: Send) -> None:
    from tare.worker import coverage

    send(coverage.cover(job.case))


@does(jobs.InspectJob)
def inspect(job: jobs.InspectJob, send: Send) -> None:
    from tare.worker import inspection

    send(inspection.inspect(job.case))
