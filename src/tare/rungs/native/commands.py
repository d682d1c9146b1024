"""Build commands: an interrupted build leaves no compilers running."""

import subprocess
import threading
from typing import IO

from tare.errors import TareError
from tare.system.processes import kill_session


class Commands:
    """The commands of parallel builds, which are all killed if the caller is interrupted."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def run(self, command: list[str], output: IO[str], timeout_s: float) -> int:
        """The exit code. OSError if it cannot be started, TimeoutExpired if it takes too long."""
        with self._guard:
            self.check()
            # A session of its own, by which all its descendants can be found.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running.add(process)
        try:
            return process.wait(timeout_s)
        except BaseException:
            kill_session(process.pid)
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
                kill_session(process.pid)
