"""From a worker's exit to what the record says: a round with its figures, or with the cause of its failure."""

import os
import signal
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec

from tare.execute.supervise import MOST_BYTES, WorkerExit
from tare.measure.telemetry import Watch
from tare.protocol.jobs import RoundJob
from tare.protocol.messages import (
    LONGEST_LINE,
    Checked,
    Done,
    Failed,
    ImportedPackages,
    Measured,
    Message,
    Prepared,
    StepProfile,
    Weighed,
)
from tare.protocol.validation import Received, find_fault
from tare.records.record import Cause, Failure, Parity, Round, Telemetry
from tare.system.processes import signal_name

Answer = TypeVar("Answer", bound=Message)


def failure_of(worker_exit: WorkerExit) -> Failure | None:
    """Why a worker has no result, or None if it has one."""
    done = any(isinstance(message, Done) for message in worker_exit.messages)
    if worker_exit.killed in ("timeout", "memory") and done:
        # It had sent everything when it was killed; only its exit took too long.
        return None
    for message in worker_exit.messages:
        if isinstance(message, Failed):
            return msgspec.structs.replace(message.failure, stage=message.failure.stage or worker_exit.stage)
    if worker_exit.killed:
        return _failure(worker_exit, *_explain_kill(worker_exit))
    if os.WIFSIGNALED(worker_exit.status):
        return _failure(worker_exit, *_explain_signal(worker_exit, os.WTERMSIG(worker_exit.status)))
    code = os.WEXITSTATUS(worker_exit.status)
    invalid = worker_exit.invalid_line and f"it sent what is not a message ({worker_exit.invalid_line[:200]})"
    if not done:
        text = f"the worker exited with code {code} and no result"
        cause: Cause = "no-result" if code == 0 else "exception"
        return _failure(worker_exit, cause, f"{text}; {invalid}" if invalid else text)
    if invalid:
        # Whatever it was, it is missing from the result.
        return _failure(worker_exit, "exception", invalid)
    if code != 0:
        return _failure(worker_exit, "exception", f"the worker exited with code {code} after its last message")
    return None


def answer_of(worker_exit: WorkerExit, answer: type[Answer]) -> Answer | Failure:
    """The one message that answers a job, or why there is none."""
    if failure := failure_of(worker_exit):
        return failure
    message = next((message for message in worker_exit.messages if isinstance(message, answer)), None)
    return message or Failure(cause="no-result", message="the worker gave no answer")


def make_round(worker_exit: WorkerExit, watch: Watch, index: int, own_pids: Collection[int] = ()) -> Round:
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
            values["flags"] = values.get("flags", {}) | message.flags
            values["notes"] = [*values.get("notes", []), *message.notes]
            values["telemetry"] = Telemetry(cpu_pace=message.cpu_pace)
        elif isinstance(message, StepProfile):
            values |= {"net": message.net, "kernels": message.kernels}
            if message.kernels:
                counts["kernels"] = sum(message.kernels.values())
        elif isinstance(message, ImportedPackages):
            values["packages"] = message.versions
        elif isinstance(message, Checked):
            values["parity"] = message.parity
    round_ = Round(
        index=index,
        started=worker_exit.started,
        seconds=worker_exit.seconds,
        isolation=worker_exit.isolation,
        failure=failure_of(worker_exit) or _refuse(worker_exit),
        **values,
    )
    memory = round_.device_memory
    if memory and memory.nvml is None and watch.device_peak is not None:
        memory = msgspec.structs.replace(memory, nvml=watch.device_peak, nvml_method="process, seen from outside")
    return msgspec.structs.replace(
        round_,
        telemetry=watch.summary(round_, {worker_exit.pid, *own_pids}),
        throttled=watch.throttled(round_.series),
        memory_trace=round_.memory_trace or watch.memory_trace(round_.series),
        device_memory=memory,
    )


def unchecked(failure: Failure) -> Parity:
    """The parity of a rung whose reference could not be computed."""
    return Parity(status="unchecked", reason=f"the reference failed: {failure.cause}, {failure.message}")


def _refuse(worker_exit: WorkerExit) -> Failure | None:
    """Why the report of a worker that ended well cannot be believed."""
    job, messages = worker_exit.job, worker_exit.messages
    if not isinstance(job, RoundJob):
        return None
    received = [Received(*each) for each in zip(messages, worker_exit.arrivals, strict=True)]
    fault = find_fault(job, worker_exit.began_ns, received)
    return _failure(worker_exit, "inconsistent", fault) if fault else None


def _explain_kill(worker_exit: WorkerExit) -> tuple[Cause, str]:
    if worker_exit.killed == "timeout":
        hint = "; it had been stopped by a signal (SIGSTOP)" if worker_exit.was_stopped else ""
        return "timeout", f"stopped after {worker_exit.timeout_s:g} s{hint}"
    if worker_exit.killed == "stopped":
        return "signal", "ended because its parent process had been stopped by a signal (SIGSTOP)"
    if worker_exit.killed == "flood":
        most = f"{MOST_BYTES >> 20} MiB, or a line of {LONGEST_LINE >> 20} MiB"
        return "exception", f"the worker sent more than a report needs: {most}"
    if worker_exit.memory_limit is not None:
        limit = f"{worker_exit.memory_limit / 2**20:g} MiB"
        return "host-oom", f"stopped because it held more host memory than its limit of {limit}"
    held = f"{worker_exit.resident / 2**20:.0f} MiB"
    return "host-oom", f"stopped because host memory ran out; it held {held} of it"


def _explain_signal(worker_exit: WorkerExit, number: int) -> tuple[Cause, str]:
    kills = worker_exit.oom_kills
    if worker_exit.reaper_lost:
        return "signal", "ended by SIGKILL: its parent process was killed"
    if number == signal.SIGKILL and kills.own:
        return "host-oom", "the kernel killed the worker because host memory ran out"
    if number == signal.SIGKILL and kills.own is None and kills.machine:
        # The kernel may have killed another process; but nothing else is known to have killed this one.
        return "host-oom", "killed (SIGKILL) while this machine ran out of memory"
    if number == signal.SIGABRT and "bad_alloc" in worker_exit.log:
        return "host-oom", "the worker aborted on a failed allocation (std::bad_alloc)"
    return "signal", f"ended by {signal_name(number)}"


def _failure(worker_exit: WorkerExit, cause: Cause, message: str) -> Failure:
    return Failure(cause=cause, message=message, stage=worker_exit.stage, detail=worker_exit.log)
