"""From a worker's exit to what the record says: a round with its figures, or with the cause of its failure."""

import os
import signal
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import msgspec

from tare.execute.supervise import WorkerExit
from tare.measure.telemetry import Watch
from tare.protocol.messages import Checked, Done, Failed, Measured, Prepared, StepProfile, Weighed
from tare.records.record import Cause, Failure, Parity, Round, Series, Telemetry


def failure_of(worker_exit: WorkerExit, timeout_s: float) -> Failure | None:
    """Why a worker has no result, or None if it has one."""
    reported = next((m.failure for m in worker_exit.messages if isinstance(m, Failed)), None)
    done = any(isinstance(m, Done) for m in worker_exit.messages)
    if worker_exit.killed and done:
        # It had sent everything when it was killed; only its exit took too long.
        return None
    if reported is not None:
        return msgspec.structs.replace(reported, stage=reported.stage or worker_exit.stage)
    if worker_exit.killed:
        return _killed(worker_exit, timeout_s)
    if os.WIFSIGNALED(worker_exit.status):
        return _signalled(worker_exit, os.WTERMSIG(worker_exit.status))
    code = os.WEXITSTATUS(worker_exit.status)
    invalid = worker_exit.invalid_line and f"it sent what is not a message ({worker_exit.invalid_line[:200]})"
    if not done:
        message = f"the worker exited with code {code} and no result"
        cause: Cause = "no-result" if code == 0 else "exception"
        return _failure(worker_exit, cause, f"{message}; {invalid}" if invalid else message)
    if invalid:
        # Whatever it was, it is missing from the result.
        return _failure(worker_exit, "exception", invalid)
    if code != 0:
        return _failure(worker_exit, "exception", f"the worker exited with code {code} after its last message")
    return None


def make_round(
    worker_exit: WorkerExit,
    watch: Watch,
    index: int,
    started: str,
    isolation: str,
    timeout_s: float,
    own_pids: Collection[int] = (),
) -> Round:
    """Everything the worker sent, failed or not, and what the parent saw of the machine meanwhile. `own_pids` are
    other processes of this run."""
    counts: dict[str, int] = {}
    values: dict[str, Any] = {"series": [], "counts": counts}
    for message in worker_exit.messages:
        if isinstance(message, Prepared):
            values |= {name: getattr(message, name) for name in message.__struct_fields__}
        elif isinstance(message, Measured):
            values["series"].append(message.series)
        elif isinstance(message, Weighed):
            values |= {"host_memory": message.host, "device_memory": message.device}
            values |= {"memory_trace": message.memory, "operators": message.operators}
            counts |= message.counts
            values["telemetry"] = Telemetry(cpu_pace=message.cpu_pace)
        elif isinstance(message, StepProfile):
            values |= {"net": message.net, "kernels": message.kernels}
            if message.kernels:
                counts["kernels"] = sum(message.kernels.values())
        elif isinstance(message, Checked):
            values["parity"] = message.parity
    failure = failure_of(worker_exit, timeout_s) or _incomplete(worker_exit, values["series"])
    seconds = worker_exit.seconds
    made = Round(index=index, started=started, seconds=seconds, isolation=isolation, failure=failure, **values)
    memory = made.device_memory
    if memory and memory.nvml is None and watch.memory_peak is not None:
        memory = msgspec.structs.replace(memory, nvml=watch.memory_peak, nvml_method="process, seen from outside")
    return msgspec.structs.replace(
        made,
        telemetry=watch.summary(made, {worker_exit.pid, *own_pids}),
        throttled=watch.throttled(made.series),
        memory_trace=made.memory_trace or watch.memory_trace(made.series),
        device_memory=memory,
    )


def failed_round(index: int, failure: Failure, seconds: float = 0.0, isolation: str = "executable") -> Round:
    """A round that failed before its process could start."""
    return Round(index=index, started=now(), seconds=seconds, isolation=isolation, failure=failure)


def unchecked(failure: Failure) -> Parity:
    """The parity of a rung whose reference could not be computed."""
    return Parity(status="unchecked", reason=f"the reference failed: {failure.cause}, {failure.message}")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _incomplete(worker_exit: WorkerExit, series: list[Series]) -> Failure | None:
    """What is missing from the result of a worker that ended well."""
    if not any(s.kind == "pipelined" and s.wall_ns for s in series):
        return _failure(worker_exit, "no-result", "the worker ended without a pipelined series")
    if any(0 in s.wall_ns for s in series):
        return _failure(worker_exit, "no-result", "the worker's clock stood still: a block of steps took no time")
    return None


def _killed(worker_exit: WorkerExit, timeout_s: float) -> Failure:
    if worker_exit.killed == "timeout":
        return _failure(worker_exit, "timeout", f"stopped after {timeout_s:g} s")
    if worker_exit.killed == "flood":
        return _failure(worker_exit, "exception", "the worker sent a message without end")
    if worker_exit.memory_limit is not None:
        limit = f"{worker_exit.memory_limit / 2**20:g} MiB"
        return _failure(
            worker_exit, "host-oom", f"stopped because it held more host memory than its limit of {limit}"
        )
    held = f"{worker_exit.resident / 2**20:.0f} MiB"
    return _failure(worker_exit, "host-oom", f"stopped because host memory ran out; it held {held} of it")


def _signalled(worker_exit: WorkerExit, number: int) -> Failure:
    name = signal.Signals(number).name if number in signal.Signals._value2member_map_ else f"signal {number}"
    kills = worker_exit.oom_kills
    if number == signal.SIGKILL and kills.own:
        return _failure(worker_exit, "host-oom", "the kernel killed the worker because host memory ran out")
    if number == signal.SIGKILL and kills.own is None and kills.machine:
        # The kernel may have killed another process; but nothing else is known to have killed this one.
        return _failure(worker_exit, "host-oom", "killed (SIGKILL) while this machine ran out of memory")
    if number == signal.SIGABRT and "bad_alloc" in worker_exit.log:
        return _failure(worker_exit, "host-oom", "the worker aborted on a failed allocation (std::bad_alloc)")
    return _failure(worker_exit, "signal", f"ended by {name}")


def _failure(worker_exit: WorkerExit, cause: Cause, message: str) -> Failure:
    return Failure(cause=cause, message=message, stage=worker_exit.stage, detail=worker_exit.log[-8000:])
