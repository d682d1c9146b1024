"""Taking turns: processes that are prepared side by side are measured one at a time, while nobody prepares.

Who is prepared waits at a pipe of its own. When enough of them wait, those that still prepare are stopped with all
they have started, and the others have their turns. Then everybody goes on, also with what is left to do once the
times are known.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from tare.system.processes import signal_group


class Abandoned(Exception):
    """Everything was interrupted: nobody wants what this worker does."""


class Lane:
    """One process on its way through the turnstile."""

    def __init__(self, pipe: Path) -> None:
        self.pipe, self.pid = pipe, 0
        self.measures = self.stands_still = False
        pipe.parent.mkdir(parents=True, exist_ok=True)
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
        # For both ends: so neither side waits for the other to open it.
        self._gate = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)

    def let_in(self) -> None:
        os.write(self._gate, b"\n")

    def close(self) -> None:
        os.close(self._gate)
        self.pipe.unlink(missing_ok=True)


class Turnstile:
    """Who prepares, who waits and who measures, as the threads say that watch them. When `enough` wait, or nobody
    prepares, they have their turns, and those who prepare stand still."""

    def __init__(self, enough: int, tell: Callable[[int, signal.Signals], None] = signal_group) -> None:
        self._enough, self._tell = enough, tell
        self._changed = threading.Condition()
        self._preparing: list[Lane] = []
        self._waiting: list[Lane] = []
        self._measuring: Lane | None = None
        self._open = self._over = False

    def enter(self, lane: Lane) -> None:
        """Before its process is started: waits while anybody measures."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or not self._open)
            if self._over:
                raise Abandoned
            self._preparing.append(lane)

    def started(self, lane: Lane, pid: int) -> None:
        with self._changed:
            lane.pid = pid
            if self._open:
                self._send(lane, signal.SIGSTOP)

    def waits(self, lane: Lane) -> None:
        """It is prepared, and has said so."""
        with self._changed:
            if lane not in self._preparing:
                return
            self._preparing.remove(lane)
            self._waiting.append(lane)
            lane.stands_still = True
            self._move()

    def has_measured(self, lane: Lane) -> None:
        """What it still has to do needs no quiet: it stands still again while others measure."""
        with self._changed:
            if self._measuring is not lane:
                return
            self._measuring = None
            lane.measures = False
            self._preparing.append(lane)
            self._send(lane, signal.SIGSTOP)
            self._move()

    def leaves(self, lane: Lane) -> None:
        """Its process has ended, wherever it was."""
        with self._changed:
            for queue in (self._preparing, self._waiting):
                if lane in queue:
                    queue.remove(lane)
            if self._measuring is lane:
                self._measuring = None
            self._move()

    def abandon(self) -> None:
        """Nobody enters any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _move(self) -> None:
        if self._measuring:
            return
        if self._waiting and (self._open or not self._preparing or len(self._waiting) >= self._enough):
            if not self._open:
                self._open = True
                for lane in self._preparing:
                    self._send(lane, signal.SIGSTOP)
            self._measuring = lane = self._waiting.pop(0)
            lane.measures = True
            # It may have been stopped after it had said that it waits, and before that was heard.
            self._send(lane, signal.SIGCONT)
            lane.let_in()
        elif self._open:
            self._open = False
            for lane in self._preparing:
                self._send(lane, signal.SIGCONT)
            self._changed.notify_all()

    def _send(self, lane: Lane, number: signal.Signals) -> None:
        """One that has no process yet gets what it is to do when it has."""
        lane.stands_still = number == signal.SIGSTOP
        if lane.pid:
            self._tell(lane.pid, number)
