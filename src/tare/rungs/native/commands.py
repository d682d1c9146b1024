"""Build commands with all that they start: a build that is given up leaves no compilers behind."""

import contextlib
import os
import signal
import subprocess
import threading
from typing import IO

import psutil

from tare.errors import TareError


class Commands:
    """Those of builds side by side, which end together if one who waits for them is interrupted."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def run(self, command: list[str], output: IO[str], timeout_s: float) -> int:
        """The exit code. OSError if it cannot be started, TimeoutExpired if it takes too long."""
        with self._guard:
            self.check()
            # CMake hands the work on; by their session all are found when it is given up.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running.add(process)
        try:
            return process.wait(timeout_s)
        except BaseException:
            _kill(process)
            raise
        finally:
            with self._guard:
                self._running.discard(process)

    def check(self) -> None:
        if self._stopped:
            raise TareError("the build was interrupted")

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            for process in self._running:
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The whole session: Ninja gives every compiler a group of its own. Whoever was started meanwhile is met the
    second time, when nobody is left to start more."""
    for _ in range(2):
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(pid) == process.pid:
                    os.kill(pid, signal.SIGKILL)
