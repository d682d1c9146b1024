"""Watching one worker to its end: its messages, its output, its memory, its time. One loop, no threads."""

import contextlib
import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import psutil

from tare.execute.launch import Process
from tare.execute.oom import NONE_KILLED, OomKills, OomWatch
from tare.protocol.messages import LONGEST_LINE, Message, Stage, read_message
from tare.system.processes import kill_group

TICK_S = 0.05
# Whoever watches one that stands still should not disturb the one that is measured meanwhile.
STILL_TICK_S = 0.5
# A look that comes later than this was no look: this process was stopped, or the machine asleep.
LONGEST_TICK_S = 0.5
MEMORY_TICK_S = 0.2
LOG_TAIL = 32 * 1024
# Below this share of the machine's memory left, the worker is stopped before the kernel picks a victim.
MEMORY_LEFT = 0.02

Killed = Literal["timeout", "memory", "flood"]


@dataclass
class Ending:
    """How a worker ended: the wait status, whether we killed it and why, and all that it said."""

    status: int
    killed: Killed | None
    messages: list[Message]
    log: str
    seconds: float
    pid: int
    oom_kills: OomKills = NONE_KILLED
    # The bytes a worker was allowed, where it was killed for holding more; else it was the machine's memory, of
    # which it held so many: others may have held the rest.
    memory_limit: int | None = None
    held: int = 0
    garbage: str = ""
    stage: str = "start"


@dataclass
class Watchman:
    """What ends a worker early, and who looks at the machine meanwhile."""

    timeout_s: float
    memory: int | None = None
    on_tick: Callable[[], None] = lambda: None
    on_message: Callable[[Message], None] = field(default=lambda _: None)
    # Whether the worker stands still because we want it to: that time is not its own.
    stands_still: Callable[[], bool] = lambda: False


def supervise(process: Process, watchman: Watchman) -> Ending:
    """Reads a worker until it has ended, or ends it; whatever happens here, nothing of it is left running."""
    try:
        return _Supervision(process, watchman).run()
    finally:
        kill_group(process.pid)
        os.close(process.messages)
        os.close(process.log)


class _Supervision:
    def __init__(self, process: Process, watchman: Watchman) -> None:
        self._process, self._watchman = process, watchman
        self._began = time.monotonic()
        self._looked = self._memory_due = self._began
        self._watched_s = self._stood_s = 0.0
        self._partial = bytearray()
        self._tail = b""
        self._ending = Ending(0, None, [], "", 0.0, process.pid)
        self._oom = OomWatch(process.pid)

    def run(self) -> Ending:
        with selectors.DefaultSelector() as ready:
            for descriptor in (self._process.messages, self._process.log):
                os.set_blocking(descriptor, False)
                ready.register(descriptor, selectors.EVENT_READ)
            status = None
            while status is None:
                for key, _ in ready.select(STILL_TICK_S if self._watchman.stands_still() else TICK_S):
                    if not self._read(key.fd):
                        ready.unregister(key.fd)
                self._watchman.on_tick()
                # When the messages have ended the worker is about to: wait for it instead of for a tick.
                talking = self._process.messages in ready.get_map()
                status = self._process.poll(0 if talking else TICK_S)
                if status is None:
                    self._limit()
        for descriptor in (self._process.messages, self._process.log):
            while self._read(descriptor, drain=True):
                pass
        return self._end(status)

    def _read(self, descriptor: int, drain: bool = False) -> bool:
        """Takes what is there; False at the end (or, when draining, when nothing more is there now)."""
        try:
            data = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            return not drain
        if not data:
            return False
        if descriptor == self._process.log:
            self._tail = (self._tail + data)[-LOG_TAIL:]
        else:
            self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        looked_through = len(self._partial)
        self._partial += data
        while (cut := self._partial.find(b"\n", looked_through)) >= 0:
            looked_through = 0
            line = bytes(self._partial[:cut])
            del self._partial[: cut + 1]
            try:
                message = read_message(line)
            except msgspec.DecodeError as error:
                self._ending.garbage = self._ending.garbage or f"{error}: {line[:120]!r}"
                continue
            self._ending.messages.append(message)
            if isinstance(message, Stage):
                self._ending.stage = message.name
            self._watchman.on_message(message)
        if len(self._partial) > LONGEST_LINE:
            self._kill("flood")

    def _limit(self) -> None:
        """Time counts while this process watches: what a worker did or said while it could not is still unread."""
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        if self._watchman.stands_still():
            self._stood_s += passed
            return
        self._watched_s += min(passed, LONGEST_TICK_S)
        if self._watched_s > self._watchman.timeout_s:
            self._kill("timeout")
        elif now >= self._memory_due:
            self._memory_due = now + MEMORY_TICK_S
            if self._memory_gone():
                self._kill("memory")

    def _memory_gone(self) -> bool:
        machine = psutil.virtual_memory()
        if machine.available < MEMORY_LEFT * machine.total:
            self._ending.held = _resident(self._process.pid)
            return True
        limit = self._watchman.memory
        if limit is None or _resident(self._process.pid) <= limit:
            return False
        self._ending.memory_limit = limit
        return True

    def _kill(self, why: Killed) -> None:
        if self._ending.killed is None:
            self._ending.killed = why
            kill_group(self._process.pid)

    def _end(self, status: int) -> Ending:
        ending = self._ending
        ending.status = status
        ending.log = self._tail.decode(errors="replace")
        ending.seconds = time.monotonic() - self._began - self._stood_s
        ending.oom_kills = self._oom.kills()
        return ending


def held_by(pid: int) -> int | None:
    """Bytes of host memory that a process holds, without its children: cheap enough for ten readings a second."""
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return None


def _resident(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += one.memory_info().rss
    return total
