"""The measured process: takes one job, sends messages, ends. The fork server forks it, or it runs as a program."""

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from tare.cases.case import Case
from tare.errors import TareError, Unsupported, first_line
from tare.protocol.jobs import Job, RoundJob, read_job
from tare.protocol.messages import (
    DESCRIPTOR,
    Channel,
    Checked,
    Done,
    Failed,
    Measured,
    Prepared,
    Stage,
    StepProfile,
    Weighed,
)
from tare.records.record import Cause, Failure, Net, Series
from tare.rungs.base import Program, Rung
from tare.system.processes import die_with_parent
from tare.worker.audit import left_running
from tare.worker.handlers import HANDLERS
from tare.worker.preparation import limit_compilers, may_build_on_one_core, one_core, use_cache

Send = Callable[[Any], None]

# Texts by which an exception shows that memory ran out.
DEVICE_MEMORY = ("CUDA out of memory", "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
                 "cudaErrorMemoryAllocation", "MPS backend out of memory")  # fmt: skip
HOST_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc", "Cannot allocate memory")


def run_job(job: Job, send: Send) -> int:
    """Does the job and returns the exit code; whatever goes wrong is sent as a failure with its cause."""
    try:
        send(Stage("start"))
        if isinstance(job, RoundJob):
            failure = measure_round(job, send)
            if failure:
                send(Failed(failure))
                return 1
        else:
            HANDLERS[type(job)](job, send)
        send(Done())
        return 0
    except BaseException as error:  # noqa: BLE001 - recorded as a failure, also a SystemExit with a text
        send(Failed(classify(error)))
        return 1


def measure_round(job: RoundJob, send: Send) -> Failure | None:
    """Prepares, samples, weighs and checks one case; returns a Failure where the figures cannot be trusted."""
    from tare.measure.clock import spin_ns
    from tare.measure.devices import open_gpu
    from tare.measure.memory import DeviceMeter, HostMeter, MemoryTracer
    from tare.measure.sampler import SamplingLimits, sample
    from tare.rungs import get_rung
    from tare.rungs.torch.numerics import pin_flags
    from tare.worker.reference import check_parity
    from tare.workloads import get_workload

    case = job.case
    rung = get_rung(case.rung)
    flags = pin_flags(case)
    cache = use_cache(job.cache if rung.caches else None)
    host = HostMeter()
    read_nvml = _nvml_reader(open_gpu(case.device))
    spin_before = spin_ns()
    send(Stage("build"))
    began = time.perf_counter()
    if job.gate:
        limit_compilers(job.compile_threads)
    with one_core(job.gate is not None and may_build_on_one_core(case)):
        program = rung.prepare(get_workload(case.workload), case)
    clock = program.clock()
    device = DeviceMeter(program.allocator(), read_nvml)
    send(Stage("prepare"))
    # The first call compiles and autotunes, so it is part of the preparation.
    clock.time(program.step, 1)
    prepare_s = max(time.perf_counter() - began - program.build_s, 0.0)
    host.mark_prepared()
    device.mark_prepared()
    notes = list(program.notes)
    send(Prepared(build_s=program.build_s, prepare_s=prepare_s, cache=cache, flags=flags, notes=notes))

    # Objects made so far live to the end: the garbage collector need not visit them during the steps.
    gc.collect()
    gc.freeze()
    if job.gate:
        send(Stage("gate"))
        wait_at_gate(Path(job.gate))
        # The CPU was shared until now.
        spin_before = spin_ns()
    send(Stage("sample"))
    series: list[Series] = []
    memory = MemoryTracer(program.allocator())

    def report(finished: Series) -> None:
        series.append(finished)
        send(Measured(finished))
        memory.mark()

    last = sample(program.step, clock, SamplingLimits.of_clock(job.budget_s, job.width, clock), report)
    host_used, device_used = host.read(), device.read()
    cpu_pace = spin_before / max(spin_ns(), 1)
    # After the meters, because counting allocates memory of its own.
    counts, operators = _count(rung, program, case)
    send(
        Weighed(
            host=host_used,
            device=device_used,
            memory=memory.read(),
            cpu_pace=cpu_pace,
            counts=counts,
            operators=operators,
        )
    )

    send(Stage("audit"))
    if program.has_nan(last):
        return Failure(cause="nan", message="the result is not a number after sampling", stage="audit")
    unfinished = left_running(program, clock, max(series[1].steps))
    if unfinished:
        return Failure(cause="unsynchronised", message=unfinished, stage="audit")
    if job.profile:
        send(Stage("profile"))
        send(_profile(program, median(series[1].step_seconds())))
    if job.gate:
        # What follows may run while another case is measured.
        send(Stage("report"))
    if job.reference:
        send(Stage("parity"))
        send(Checked(check_parity(program.evidence, Path(job.reference), case)))
    program.close()
    return None


def wait_at_gate(pipe: Path) -> None:
    """Returns when the parent lets this process measure: until then other processes are prepared or measured."""
    with pipe.open("rb", buffering=0) as gate:
        if not gate.read(1):
            raise TareError("the parent is gone: nobody opens the measurement gate")


def classify(error: BaseException) -> Failure:
    """An exception as a failure with its cause. Our own errors need no class name in front of their text."""
    name, text = type(error).__name__, first_line(error)
    cause: Cause = "exception"
    if isinstance(error, Unsupported):
        cause = "unsupported"
    elif name == "OutOfMemoryError" or any(sign in str(error) for sign in DEVICE_MEMORY):
        cause = "device-oom"
    elif isinstance(error, MemoryError) or any(sign in str(error) for sign in HOST_MEMORY):
        cause = "host-oom"
    elif isinstance(error, ModuleNotFoundError):
        cause = "not-installed"
    message = text if text and isinstance(error, TareError) else f"{name}: {text}" if text else name
    detail = "" if cause == "unsupported" else "".join(traceback.format_exception(error))[-8000:]
    return Failure(cause=cause, message=message[:500], exception=name, detail=detail)


def _count(rung: Rung, program: Any, case: Case) -> tuple[dict[str, int], dict[str, int]]:
    """Counts of one step, and its calls of each operator. Both are empty where counting fails, which may happen
    with another version of torch: the measured figures are worth more than the counts."""
    from tare.measure.counts import count_step

    figures: dict[str, int] = {}
    with suppress(Exception):
        figures |= rung.counts(case)
    with suppress(Exception):
        if rung.countable:
            counted = count_step(program.step, program.device)
            return figures | counted.figures, counted.operators
    return figures, {}


def _profile(program: Program, step_s: float) -> StepProfile:
    try:
        return program.profile(step_s)
    except Exception as error:  # noqa: BLE001 - recorded as the reason why there is no net
        return StepProfile(net=Net(reason=f"profiling failed: {type(error).__name__}: {first_line(error)}"[:300]))


def _nvml_reader(gpu: Any) -> Callable[[], tuple[int, str] | None]:
    """This process's memory by NVML; where that is hidden, the growth of the device's memory since now."""
    before = gpu.used() if gpu else None

    def read() -> tuple[int, str] | None:
        if gpu is None:
            return None
        own = gpu.used_by(os.getpid())
        if own is not None:
            return own, "process"
        used = gpu.used()
        if used is None or before is None:
            return None
        return max(used - before, 0), "device, above its use before the preparation"

    return read


def main() -> int:
    """The job comes on standard input; messages go to the descriptor in TARE_FD."""
    die_with_parent()
    channel = Channel(int(os.environ.pop(DESCRIPTOR)))
    return run_job(read_job(sys.stdin.buffer.read()), channel.send)


if __name__ == "__main__":
    sys.exit(main())
