"""What a worker does for each kind of job, beside measuring. It imports only what its own job needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.execute import protocol
from tare.execute.cache import use_cache

Send = Callable[[Any], None]
Duty = Callable[[Any, Send], None]
DUTIES: dict[type, Duty] = {}


def does(job: type) -> Callable[[Duty], Duty]:
    """Registers the function that does a kind of job."""

    def register(duty: Duty) -> Duty:
        DUTIES[job] = duty
        return duty

    return register


@does(protocol.ReferenceJob)
def reference(job: protocol.ReferenceJob, send: Send) -> None:  # noqa: ARG001
    from tare.execute.reference import make_reference

    make_reference(job.case, Path(job.folder), job.data, job.steps)


@does(protocol.StageJob)
def stage(job: protocol.StageJob, send: Send) -> None:
    from tare.execute import native

    send(native.stage(job))


@does(protocol.CheckJob)
def check(job: protocol.CheckJob, send: Send) -> None:
    from tare.execute import native

    send(native.check(job))


@does(protocol.CurveJob)
def curve(job: protocol.CurveJob, send: Send) -> None:  # noqa: ARG001
    from tare.execute.curve import follow

    use_cache(job.cache)
    follow(job)


@does(protocol.FramesJob)
def frames(job: protocol.FramesJob, send: Send) -> None:  # noqa: ARG001
    from tare.execute import frames

    use_cache(job.cache)
    frames.count(job)


@does(protocol.ProbeJob)
def probe(job: protocol.ProbeJob, send: Send) -> None:  # noqa: ARG001
    from tare.execute import probe

    send(probe.probe())


@does(protocol.ProfileJob)
def profile(job: protocol.ProfileJob, send: Send) -> None:
    from tare.execute import profiling

    profiling.profile(job, send)


@does(protocol.CountJob)
def count(job: protocol.CountJob, send: Send) -> None:
    from tare.execute import counting

    send(protocol.Stage("count"))
    send(counting.count(job.case))


@does(protocol.PeakJob)
def peak(job: protocol.PeakJob, send: Send) -> None:
    from tare.execute.ceilings import measure_peak

    measure_peak(job, send)


@does(protocol.RegistryJob)
def registry(job: protocol.RegistryJob, send: Send) -> None:  # noqa: ARG001
    from tare.execute.coverage import registries

    send(registries())


@does(protocol.CoverJob)
def cover(job: protocol.CoverJob, send: Send) -> None:
    from tare.execute import coverage

    send(coverage.cover(job.case))


@does(protocol.InspectJob)
def inspect(job: protocol.InspectJob, send: Send) -> None:
    from tare.execute import inspection

    send(inspection.inspect(job.case))
