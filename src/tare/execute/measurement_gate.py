"""The measurement gate: cases are prepared in parallel, but measured one at a time while nothing else runs.

A prepared process waits at a pipe. When enough of them wait, the gate closes: the processes that still prepare are
stopped (SIGSTOP) with everything they started, and those that wait are measured one after the other. Then all
continue, also those that have been measured and have work left that needs no quiet machine.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from tare.system.reaper import signal_descendants


class GatedProcess:
    """One process at the gate, and the pipe from which it reads a byte before it measures."""

    def __init__(self, pipe: Path) -> None:
        # The reaper of the process: its descendants are signalled.
        self.pipe, self.reaper = pipe, 0
        self.is_measuring = self.is_paused = False
        pipe.parent.mkdir(parents=True, exist_ok=True)
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
        # Opened for both directions, so that neither end blocks until the other opens the pipe.
        self._descriptor = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)

    def let_measure(self) -> None:
        os.write(self._descriptor, b"\n")

    def close(self) -> None:
        os.close(self._descriptor)
        self.pipe.unlink(missing_ok=True)


class MeasurementGate:
    """Knows which processes prepare, wait and measure, as the threads report that supervise them. Measuring begins
    when `enough` processes wait, or when none prepares any more."""

    def __init__(self, enough: int, send_signal: Callable[[int, int], None] = signal_descendants) -> None:
        self._enough, self._send_signal = enough, send_signal
        self._changed = threading.Condition()
        self._preparing: list[GatedProcess] = []
        self._waiting: list[GatedProcess] = []
        self._measuring: GatedProcess | None = None
        self._is_measuring_phase = False

    def enter(self, process: GatedProcess, check: Callable[[], None] = lambda: None) -> None:
        """Called before the process is started; blocks while others are measured. `check` is called meanwhile, and
        may raise."""
        with self._changed:
            check()
            while not self._changed.wait_for(lambda: not self._is_measuring_phase, timeout=0.1):
                check()
            self._preparing.append(process)

    def started(self, process: GatedProcess, reaper: int) -> None:
        with self._changed:
            process.reaper = reaper
            if self._is_measuring_phase:
                self._signal(process, signal.SIGSTOP)

    def prepared(self, process: GatedProcess) -> None:
        """The process waits at its pipe."""
        with self._changed:
            if process not in self._preparing:
                return
            self._preparing.remove(process)
            self._waiting.append(process)
            process.is_paused = True
            if self._is_measuring_phase:
                # What it started may still compute.
                self._signal(process, signal.SIGSTOP)
            self._proceed()

    def measured(self, process: GatedProcess) -> None:
        """The rest of its work needs no quiet machine, and must not disturb the next measurement."""
        with self._changed:
            if self._measuring is not process:
                return
            self._measuring = None
            process.is_measuring = False
            self._preparing.append(process)
            self._signal(process, signal.SIGSTOP)
            self._proceed()

    def ended(self, process: GatedProcess) -> None:
        """The process has exited, in whatever state it was."""
        with self._changed:
            for queue in (self._preparing, self._waiting):
                if process in queue:
                    queue.remove(process)
            if self._measuring is process:
                self._measuring = None
            self._proceed()

    def _proceed(self) -> None:
        if self._measuring:
            return
        may_begin = self._is_measuring_phase or not self._preparing or len(self._waiting) >= self._enough
        if self._waiting and may_begin:
            if not self._is_measuring_phase:
                self._is_measuring_phase = True
                for process in (*self._preparing, *self._waiting):
                    self._signal(process, signal.SIGSTOP)
            self._measuring = process = self._waiting.pop(0)
            process.is_measuring = True
            # It may have been stopped after it had sent that it waits, and before that was read.
            self._signal(process, signal.SIGCONT)
            process.let_measure()
        elif self._is_measuring_phase:
            self._is_measuring_phase = False
            for process in self._preparing:
                self._signal(process, signal.SIGCONT)
            self._changed.notify_all()

    def _signal(self, process: GatedProcess, number: signal.Signals) -> None:
        """A process that has not started yet is signalled by `started`."""
        process.is_paused = number == signal.SIGSTOP
        if process.reaper:
            self._send_signal(process.reaper, number)
