"""From how a worker ended to what the record says: a round with its figures, or with the cause of its failure."""

import os
import signal
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import msgspec

from tare.execute.supervise import Ending
from tare.measure.telemetry import Watch
from tare.protocol.messages import Checked, Done, Failed, Launched, Measured, Prepared, Weighed
from tare.records.record import Failure, Parity, Round, Series, Telemetry


def failure_of(ending: Ending, timeout_s: float) -> Failure | None:
    """Why a worker has no result, or None if it has one."""
    said = next((m.failure for m in ending.messages if isinstance(m, Failed)), None)
    finished = any(isinstance(m, Done) for m in ending.messages)
    if ending.killed and finished:
        # It had said everything when it was killed: it only did not end.
        return None
    if ending.killed and said is None:
        return _killed(ending, timeout_s)
    if said is not None:
        return msgspec.structs.replace(said, stage=said.stage or ending.stage)
    if os.WIFSIGNALED(ending.status):
        return _signalled(ending, os.WTERMSIG(ending.status))
    code = os.WEXITSTATUS(ending.status)
    said_garbage = f"it sent what is not a message ({ending.garbage[:200]})" if ending.garbage else ""
    if not finished:
        cause = "no-result" if code == 0 else "exception"
        why = f"the worker exited with code {code} and no result"
        return _failure(ending, cause, f"{why}; {said_garbage}" if said_garbage else why)
    if said_garbage:
        # Whatever it was, it is missing from the result.
        return _failure(ending, "exception", said_garbage)
    if code != 0:
        return _failure(ending, "exception", f"the worker exited with code {code} after its last message")
    return None


def round_of(ending: Ending, index: int, started: str, isolation: str, timeout_s: float) -> Round:
    """Everything the worker said, failed or not."""
    counts: dict[str, int] = {}
    values: dict[str, Any] = {"series": [], "counts": counts}
    for message in ending.messages:
        if isinstance(message, Prepared):
            values |= {
                "build_s": message.build_s,
                "prepare_s": message.prepare_s,
                "cache": message.cache,
                "flags": message.flags,
                "notes": message.notes,
            }
        elif isinstance(message, Measured):
            values["series"].append(message.series)
        elif isinstance(message, Weighed):
            values |= {"host_memory": message.host, "device_memory": message.device}
            values |= {"memory_trace": message.memory, "operators": message.operators}
            counts |= message.counts
            values["telemetry"] = Telemetry(cpu_pace=message.cpu_pace)
        elif isinstance(message, Launched):
            values["kernels"] = message.kernels
            counts["kernels"] = sum(message.kernels.values())
        elif isinstance(message, Checked):
            values["parity"] = message.parity
    failure = failure_of(ending, timeout_s) or _lacking(ending, values["series"])
    return Round(
        index=index, started=started, seconds=ending.seconds, isolation=isolation, failure=failure, **values
    )


def watched_round(
    ending: Ending,
    watch: Watch,
    index: int,
    started: str,
    isolation: str,
    timeout_s: float,
    ours: Collection[int] = (),
) -> Round:
    """The same with what was seen from outside. `ours` are processes of this run that were there beside it."""
    done = round_of(ending, index, started, isolation, timeout_s)
    memory = done.device_memory
    if memory and memory.nvml is None and watch.memory_peak is not None:
        memory = msgspec.structs.replace(memory, nvml=watch.memory_peak, nvml_method="process, seen from outside")
    return msgspec.structs.replace(
        done,
        telemetry=watch.summary(done, {ending.pid, *ours}),
        throttled=watch.throttled(done.series),
        memory_trace=done.memory_trace or watch.memory_trace(done.series),
        device_memory=memory,
    )


def failed_round(index: int, failure: Failure, seconds: float = 0.0, isolation: str = "executable") -> Round:
    """A round that ended before its process could begin."""
    return Round(index=index, started=now(), seconds=seconds, isolation=isolation, failure=failure)


def unchecked(failure: Failure) -> Parity:
    """The parity of a rung whose reference could not be computed."""
    return Parity(status="unchecked", reason=f"the reference failed: {failure.cause}, {failure.message}")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lacking(ending: Ending, series: list[Series]) -> Failure | None:
    """What a worker that ended well has left out."""
    if not any(one.kind == "pipelined" and one.wall_ns for one in series):
        return _failure(ending, "no-result", "the worker ended without a pipelined series")
    if any(0 in one.wall_ns for one in series):
        return _failure(ending, "no-result", "the worker's clock stood still: a block of steps took no time")
    return None


def _killed(ending: Ending, timeout_s: float) -> Failure:
    if ending.killed == "timeout":
        return _failure(ending, "timeout", f"stopped after {timeout_s:g} s")
    if ending.killed == "flood":
        return _failure(ending, "exception", "the worker sent a message without end")
    if ending.memory_limit is not None:
        limit = f"{ending.memory_limit / 2**20:g} MiB"
        return _failure(ending, "host-oom", f"stopped because it held more host memory than its limit of {limit}")
    held = f"{ending.held / 2**20:.0f} MiB"
    return _failure(ending, "host-oom", f"stopped because host memory ran out; it held {held} of it")


def _signalled(ending: Ending, number: int) -> Failure:
    name = signal.Signals(number).name if number in signal.Signals._value2member_map_ else f"signal {number}"
    if number == signal.SIGKILL and ending.oom_kills.own:
        return _failure(ending, "host-oom", "the kernel killed the worker because host memory ran out")
    if number == signal.SIGKILL and ending.oom_kills.own is None and ending.oom_kills.machine:
        # The kernel's victim may have been somebody else's; no other is known to have killed this one.
        return _failure(ending, "host-oom", "killed (SIGKILL) while this machine ran out of memory")
    if number == signal.SIGABRT and "bad_alloc" in ending.log:
        return _failure(ending, "host-oom", "the worker aborted on a failed allocation (std::bad_alloc)")
    return _failure(ending, "signal", f"ended by {name}")


def _failure(ending: Ending, cause: Any, message: str) -> Failure:
    return Failure(cause=cause, message=message, stage=ending.stage, detail=ending.log[-8000:])
