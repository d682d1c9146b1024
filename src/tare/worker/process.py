"""The measured process: takes one job, sends what it finds, ends. Started by the fork server or as a program."""

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tare.cases.case import Case
from tare.errors import TareError, Unsupported, first_line
from tare.protocol.jobs import Job, RoundJob, read_job
from tare.protocol.messages import (
    DESCRIPTOR,
    Channel,
    Checked,
    Done,
    Failed,
    Launched,
    Measured,
    Prepared,
    Stage,
    Weighed,
)
from tare.records.record import Cause, Failure, Series
from tare.system.processes import die_with_parent
from tare.worker.audit import left_running
from tare.worker.compiler_cache import use_cache
from tare.worker.cpu_limits import limit_compilers, may_build_on_one_core, one_core
from tare.worker.handlers import DUTIES
from tare.worker.parity_check import prove

Send = Callable[[Any], None]

# A GPU at rest needs about this long under load before its clock is up.
DEVICE_WARMUP_S = 0.3
# Where a wrong device or a full memory shows itself in an exception's text.
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
            DUTIES[type(job)](job, send)
        send(Done())
        return 0
    except BaseException as error:  # noqa: BLE001 - recorded as a failure, also a SystemExit with a text
        send(Failed(classify(error)))
        return 1


def measure_round(job: RoundJob, send: Send) -> Failure | None:
    """Prepares, samples, weighs and checks one case; a Failure where the figures cannot be trusted."""
    from tare.measure.cpu_speed import pace, spin_ns
    from tare.measure.devices import make_clock, open_gpu
    from tare.measure.memory import DeviceMeter, HostMeter, Trace
    from tare.measure.sampler import Limits, sample
    from tare.rungs import get_rung
    from tare.rungs.torch.numerics import pin_flags
    from tare.workloads import get_workload

    case = job.case
    rung = get_rung(case.rung)
    flags = pin_flags(case)
    cache = use_cache(job.cache if rung.caches else None)
    host = HostMeter()
    nvml = _nvml_reader(open_gpu(case.device))
    spin_before = spin_ns()
    send(Stage("build"))
    began = time.perf_counter()
    if job.gate:
        limit_compilers(job.compile_threads)
    with one_core(job.gate is not None and may_build_on_one_core(case)):
        program = rung.prepare(get_workload(case.workload), case)
    clock = make_clock(program.device)
    device = DeviceMeter(program.device, nvml)
    send(Stage("prepare"))
    # Compiling and autotuning happen in the first call: it belongs to the preparation.
    clock.time(program.step, 1)
    prepare_s = max(time.perf_counter() - began - program.build_s, 0.0)
    host.mark_prepared()
    device.mark_prepared()
    send(Prepared(build_s=program.build_s, prepare_s=prepare_s, cache=cache, flags=flags, notes=program.notes))

    # What was made so far lives to the end: the collector need not look at it in every step.
    gc.collect()
    gc.freeze()
    if job.gate:
        send(Stage("gate"))
        wait_at_gate(Path(job.gate))
        # The processor's pace while others were prepared is not that of the steps.
        spin_before = spin_ns()
    send(Stage("sample"))
    taken: list[Series] = []

    trace = Trace(program.device)

    def report(series: Series) -> None:
        taken.append(series)
        send(Measured(series))
        trace.mark()

    at_least = DEVICE_WARMUP_S if clock.overlaps else 0.0
    limits = Limits(budget_s=job.budget_s, width=job.width, warmup_at_least_s=at_least)
    last = sample(program.step, clock, limits, report)
    weighed = Weighed(
        host=host.read(), device=device.read(), cpu_pace=pace(spin_before, spin_ns()), memory=trace.read()
    )
    # Behind the meters: what counting allocates is no part of what the steps held.
    counts, operators = _count(rung, program, case)
    send(msgspec.structs.replace(weighed, counts=counts, operators=operators))

    send(Stage("audit"))
    if program.has_nan(last):
        return Failure(cause="nan", message="the result is not a number after sampling", stage="audit")
    waiting = left_running(program, clock, max(taken[1].steps))
    if waiting:
        return Failure(cause="unsynchronised", message=waiting, stage="audit")
    if job.gate:
        # The rest can be done beside others.
        send(Stage("report"))
    if job.reference:
        send(Stage("parity"))
        send(Checked(prove(program.evidence, Path(job.reference), case)))
    if job.kernels and case.device_type == "cuda":
        _name_kernels(program, clock, send)
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


def _count(rung: Any, program: Any, case: Case) -> tuple[dict[str, int], dict[str, int]]:
    """What can be counted, and how often each operator was called; nothing where the program does not bear being
    looked at, or a torch keeps its books elsewhere: the figures measured are worth more."""
    from tare.measure.counts import count_step

    figures: dict[str, int] = {}
    with suppress(Exception):
        figures |= rung.counts(case)
    with suppress(Exception):
        if rung.countable:
            counted = count_step(program.step, program.device)
            return figures | counted.figures, counted.operators
    return figures, {}


def _name_kernels(program: Any, clock: Any, send: Send) -> None:
    from tare.measure.counts import count_kernels

    with suppress(Exception):
        send(Launched(count_kernels(program.step, clock.synchronize)))


def _nvml_reader(gpu: Any) -> Callable[[], tuple[int, str] | None]:
    """This process's memory by NVML; where that is hidden, how much more of the device is used than before."""
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
    """As a program: the job on standard input, the messages on the descriptor in TARE_FD."""
    die_with_parent()
    channel = Channel(int(os.environ.pop(DESCRIPTOR)))
    return run_job(read_job(sys.stdin.buffer.read()), channel.send)


if __name__ == "__main__":
    sys.exit(main())
