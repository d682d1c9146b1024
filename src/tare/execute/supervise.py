"""Running one worker to its end: its messages, output, memory and time. One loop, no threads."""

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import msgspec
import psutil

from tare.execute.launch import END_S, CannotStart, Launcher, WorkerProcess
from tare.execute.oom import OomCounter, OomKills
from tare.protocol.jobs import Job
from tare.protocol.messages import LONGEST_LINE, Done, Failed, Message, Stage, read_message
from tare.protocol.validation import Arrival
from tare.records.record import Failure
from tare.system.processes import is_stopped
from tare.system.reaper import descendants

TICK_S = 0.05
# A worker that is stopped is looked at less often, so as not to disturb the one that is measured meanwhile.
PAUSED_TICK_S = 0.5
# A longer gap between two ticks means that this process itself was stopped, or that the machine slept.
LONGEST_TICK_S = 0.5
CHECK_TICK_S = 0.2
LOG_TAIL = 32 * 1024
# When less than this share of the machine's memory is free, the worker is killed before the kernel picks a victim.
LEAST_FREE_MEMORY = 0.02

# How much a worker may send: it must not fill the memory of the parent.
MOST_BYTES = 64 * 2**20
# How long a worker may take to exit after its last message: a thread of a library may keep it alive.
EXIT_S = 20.0

KillReason = Literal["timeout", "memory", "flood", "stopped"]


@dataclass(kw_only=True)
class WorkerExit:
    """How a worker ended: its wait status, why we killed it if we did, and all that it sent."""

    status: int = 0
    killed: KillReason | None = None
    messages: list[Message] = field(default_factory=list)
    # One for each message.
    arrivals: list[Arrival] = field(default_factory=list)
    job: Job | None = None
    began_ns: int = 0
    log: str = ""
    pid: int = 0
    isolation: str = ""
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    seconds: float = 0.0
    timeout_s: float = 0.0
    oom_kills: OomKills = field(default_factory=OomKills)
    # The limit that the worker exceeded, if it had one. Otherwise the machine's memory ran out, and the worker
    # held `resident` bytes of it.
    memory_limit: int | None = None
    resident: int = 0
    # The first line that was no message.
    invalid_line: str = ""
    # Whether the worker itself was stopped (SIGSTOP) when it was killed.
    was_stopped: bool = False
    # Whether its reaper was killed, and the worker with it.
    reaper_lost: bool = False
    stage: str = "start"


@dataclass
class Supervision:
    """What ends a worker early, and what is called when it starts and while it runs."""

    timeout_s: float
    memory_limit: int | None = None
    on_start: Callable[[WorkerProcess], None] = field(default=lambda _: None)
    on_tick: Callable[[], None] = lambda: None
    on_message: Callable[[Message], None] = field(default=lambda _: None)
    # Whether the worker is stopped on purpose: that time does not count against its timeout.
    is_paused: Callable[[], bool] = lambda: False


def run_worker(launcher: Launcher, job: Job, supervision: Supervision) -> WorkerExit:
    """Starts a worker and supervises it. A worker that cannot be started has failed."""
    try:
        worker_exit = supervise(launcher.launch(job), supervision)
    except (CannotStart, OSError) as error:
        # An OSError is one of this process: no more descriptors, no more processes.
        cause = error.cause if isinstance(error, CannotStart) else "exception"
        message = str(error) if isinstance(error, CannotStart) else f"cannot start a worker: {error.strerror}"
        worker_exit = WorkerExit(messages=[Failed(Failure(cause=cause, message=message, stage="start"))])
    worker_exit.isolation, worker_exit.job = launcher.isolation, job
    return worker_exit


def supervise(process: WorkerProcess, supervision: Supervision) -> WorkerExit:
    """Reads a worker's messages until it has ended, or kills it. Nothing of it is left running, whatever
    happens."""
    with contextlib.closing(process):
        supervision.on_start(process)
        return _Loop(process, supervision).run()


class _Loop:
    def __init__(self, process: WorkerProcess, supervision: Supervision) -> None:
        self._process, self._supervision = process, supervision
        self._began = time.monotonic()
        self._last_tick = self._next_check = self._began
        self._active_s = self._paused_s = 0.0
        self._killed_at = 0.0
        # The latest moment of its active time by which the worker must have exited.
        self._deadline_s = supervision.timeout_s
        self._partial_line, self._log_tail = bytearray(), b""
        self._received = 0
        # Until then the worker had sent nothing that has not been read.
        self._silent_until_ns = process.began_ns
        self._exit = WorkerExit(pid=process.pid, timeout_s=supervision.timeout_s, began_ns=self._silent_until_ns)
        self._oom = OomCounter(process.pid)

    def run(self) -> WorkerExit:
        process = self._process
        with selectors.DefaultSelector() as selector:
            for descriptor in (process.messages, process.log):
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            selector.register(process.control, selectors.EVENT_READ)
            status = None
            while status is None:
                before_ns = time.monotonic_ns()
                ready = {key.fd for key, _ in selector.select(self._tick_s())}
                if process.messages not in ready:
                    self._silent_until_ns = before_ns
                for descriptor in ready - {process.control}:
                    if not self._read(descriptor):
                        selector.unregister(descriptor)
                self._supervision.on_tick()
                status = process.poll() if process.control in ready else None
                if status is None:
                    status = self._enforce_limits()
        for descriptor in (process.messages, process.log):
            # Bounded, because a process that has escaped may write for ever.
            for _ in range(MOST_BYTES >> 20):
                if not self._read(descriptor, drain=True):
                    break
        if self._partial_line:
            self._note_invalid(bytes(self._partial_line), "a line without an end")
        self._exit.reaper_lost = process.is_lost
        self._exit.status = status
        self._exit.log = self._log_tail.decode(errors="replace")
        self._exit.seconds = time.monotonic() - self._began - self._paused_s
        self._exit.oom_kills = self._oom.kills()
        return self._exit

    def _tick_s(self) -> float:
        return PAUSED_TICK_S if self._supervision.is_paused() else TICK_S

    def _read(self, descriptor: int, drain: bool = False) -> bool:
        """Reads what is there; False at the end of the file, or when draining and nothing more is there."""
        try:
            data = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            return not drain
        if not data:
            return False
        if descriptor == self._process.log:
            self._log_tail = (self._log_tail + data)[-LOG_TAIL:]
        else:
            self._parse(data)
        return True

    def _parse(self, data: bytes) -> None:
        arrival = Arrival(self._silent_until_ns, time.monotonic_ns())
        self._received += len(data)
        self._partial_line += data
        lines = []
        if b"\n" in data:
            *lines, rest = self._partial_line.split(b"\n")
            self._partial_line = bytearray(rest)
        for line in lines:
            try:
                message = read_message(line)
            except msgspec.DecodeError as error:
                self._note_invalid(bytes(line), error)
                continue
            self._exit.messages.append(message)
            self._exit.arrivals.append(arrival)
            if isinstance(message, Stage):
                self._exit.stage = message.name
            elif isinstance(message, Done | Failed):
                self._deadline_s = min(self._deadline_s, self._active_s + EXIT_S)
            self._supervision.on_message(message)
        if len(self._partial_line) > LONGEST_LINE or self._received > MOST_BYTES:
            self._kill("flood")

    def _note_invalid(self, line: bytes, reason: object) -> None:
        self._exit.invalid_line = self._exit.invalid_line or f"{reason}: {line[:120]!r}"

    def _enforce_limits(self) -> int | None:
        """A tick counts for at most LONGEST_TICK_S: while this process was stopped, the worker may have finished.
        Returns the status of a worker that was killed and whose end nobody reports."""
        now = time.monotonic()
        passed, self._last_tick = now - self._last_tick, now
        if self._exit.killed:
            return int(signal.SIGKILL) if now - self._killed_at > END_S else None
        if self._supervision.is_paused():
            self._paused_s += passed
            return None
        self._active_s += min(passed, LONGEST_TICK_S)
        if self._active_s > self._deadline_s:
            self._exit.was_stopped = is_stopped(self._process.pid)
            self._kill("timeout")
        elif now >= self._next_check:
            self._next_check = now + CHECK_TICK_S
            if self._process.is_reaper_stopped():
                self._kill("stopped")
                return int(signal.SIGKILL)
            if self._memory_exceeded():
                self._kill("memory")
        return None

    def _memory_exceeded(self) -> bool:
        machine = psutil.virtual_memory()
        if machine.available < LEAST_FREE_MEMORY * machine.total:
            self._exit.resident = _resident_below(self._process.reaper)
            return True
        limit = self._supervision.memory_limit
        if limit is None or _resident_below(self._process.reaper) <= limit:
            return False
        self._exit.memory_limit = limit
        return True

    def _kill(self, reason: KillReason) -> None:
        if self._exit.killed is None:
            self._exit.killed, self._killed_at = reason, time.monotonic()
            self._process.kill()


def _resident_below(pid: int) -> int:
    """The memory of all processes below one: the worker with everything that it started, detached or not."""
    resident = 0
    for each in descendants(pid):
        # It may have ended meanwhile.
        with contextlib.suppress(psutil.Error):
            resident += psutil.Process(each.pid).memory_info().rss
    return resident
