"""Running one worker to its end: its messages, output, memory and time. One loop, no threads."""

import contextlib
import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import msgspec
import psutil

from tare.execute.launch import CannotStart, Launcher, WorkerProcess
from tare.execute.oom import OomCounter, OomKills
from tare.protocol.jobs import Job
from tare.protocol.messages import LONGEST_LINE, Failed, Message, Stage, read_message
from tare.records.record import Failure
from tare.system.processes import kill_group

TICK_S = 0.05
# A worker that is stopped is looked at less often, so as not to disturb the one that is measured meanwhile.
PAUSED_TICK_S = 0.5
# A longer gap between two ticks means that this process itself was stopped, or that the machine slept.
LONGEST_TICK_S = 0.5
MEMORY_TICK_S = 0.2
LOG_TAIL = 32 * 1024
# When less than this share of the machine's memory is free, the worker is killed before the kernel picks a victim.
LEAST_FREE_MEMORY = 0.02

KillReason = Literal["timeout", "memory", "flood"]


@dataclass(kw_only=True)
class WorkerExit:
    """How a worker ended: its wait status, why we killed it if we did, and all that it sent."""

    status: int = 0
    killed: KillReason | None = None
    messages: list[Message] = field(default_factory=list)
    log: str = ""
    pid: int = 0
    isolation: str = ""
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    timeout_s: float = 0.0
    oom_kills: OomKills = field(default_factory=OomKills)
    # The limit that the worker exceeded, if it had one. Otherwise the machine's memory ran out, and the worker
    # held `resident` bytes of it.
    memory_limit: int | None = None
    resident: int = 0
    # The first line that was no message.
    invalid_line: str = ""
    stage: str = "start"


@dataclass
class Supervision:
    """What ends a worker early, and what is called when it starts and while it runs."""

    timeout_s: float
    memory_limit: int | None = None
    on_start: Callable[[int], None] = field(default=lambda _: None)
    on_tick: Callable[[], None] = lambda: None
    on_message: Callable[[Message], None] = field(default=lambda _: None)
    # Whether the worker is stopped on purpose: that time does not count against its timeout.
    is_paused: Callable[[], bool] = lambda: False


def run_worker(launcher: Launcher, job: Job, supervision: Supervision) -> WorkerExit:
    """Starts a worker and supervises it. A program that cannot be started is a worker that has failed."""
    try:
        worker_exit = supervise(launcher.launch(job), supervision)
    except CannotStart as error:
        failure = Failure(cause="not-installed", message=str(error), stage="start")
        worker_exit = WorkerExit(messages=[Failed(failure)])
    worker_exit.isolation = launcher.isolation
    return worker_exit


def supervise(process: WorkerProcess, supervision: Supervision) -> WorkerExit:
    """Reads a worker's messages until it has ended, or kills it. Nothing of it is left running, whatever
    happens."""
    try:
        supervision.on_start(process.pid)
        return _Loop(process, supervision).run()
    finally:
        kill_group(process.pid)
        os.close(process.messages)
        os.close(process.log)


class _Loop:
    def __init__(self, process: WorkerProcess, supervision: Supervision) -> None:
        self._process, self._supervision = process, supervision
        self._began = time.monotonic()
        self._last_tick = self._next_memory_check = self._began
        self._active_s = self._paused_s = 0.0
        self._partial_line = self._log_tail = b""
        self._exit = WorkerExit(pid=process.pid, timeout_s=supervision.timeout_s)
        self._oom = OomCounter(process.pid)

    def run(self) -> WorkerExit:
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._process.messages, self._process.log):
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            status = None
            while status is None:
                for key, _ in selector.select(PAUSED_TICK_S if self._supervision.is_paused() else TICK_S):
                    if not self._read(key.fd):
                        selector.unregister(key.fd)
                self._supervision.on_tick()
                # A worker that has closed its messages is about to end: wait for that instead of for a tick.
                is_open = self._process.messages in selector.get_map()
                status = self._process.poll(0 if is_open else TICK_S)
                if status is None:
                    self._enforce_limits()
        for descriptor in (self._process.messages, self._process.log):
            while self._read(descriptor, drain=True):
                pass
        self._exit.status = status
        self._exit.log = self._log_tail.decode(errors="replace")
        self._exit.seconds = time.monotonic() - self._began - self._paused_s
        self._exit.oom_kills = self._oom.kills()
        return self._exit

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
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            try:
                message = read_message(line)
            except msgspec.DecodeError as error:
                self._exit.invalid_line = self._exit.invalid_line or f"{error}: {line[:120]!r}"
                continue
            self._exit.messages.append(message)
            if isinstance(message, Stage):
                self._exit.stage = message.name
            self._supervision.on_message(message)
        if len(self._partial_line) > LONGEST_LINE:
            self._kill("flood")

    def _enforce_limits(self) -> None:
        """A tick counts for at most LONGEST_TICK_S: while this process was stopped, the worker may have
        finished."""
        now = time.monotonic()
        passed, self._last_tick = now - self._last_tick, now
        if self._supervision.is_paused():
            self._paused_s += passed
            return
        self._active_s += min(passed, LONGEST_TICK_S)
        if self._active_s > self._supervision.timeout_s:
            self._kill("timeout")
        elif now >= self._next_memory_check:
            self._next_memory_check = now + MEMORY_TICK_S
            if self._memory_exceeded():
                self._kill("memory")

    def _memory_exceeded(self) -> bool:
        machine = psutil.virtual_memory()
        if machine.available < LEAST_FREE_MEMORY * machine.total:
            self._exit.resident = _resident_with_children(self._process.pid)
            return True
        limit = self._supervision.memory_limit
        if limit is None or _resident_with_children(self._process.pid) <= limit:
            return False
        self._exit.memory_limit = limit
        return True

    def _kill(self, reason: KillReason) -> None:
        if self._exit.killed is None:
            self._exit.killed = reason
            kill_group(self._process.pid)


def _resident_with_children(pid: int) -> int:
    resident = 0
    with contextlib.suppress(psutil.Error):
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            # A child may have ended meanwhile.
            with contextlib.suppress(psutil.Error):
                resident += process.memory_info().rss
    return resident
