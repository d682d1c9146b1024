"""What Ray runs on a node: it starts the program of the node and passes lines on.

Ray sends this class by value, so it needs nothing but the standard library: a node without tare can say so.

The program is a process of its own, in the environment that the node's administrator started Ray with: Ray gives
its own processes another number of threads (OMP_NUM_THREADS), which would change what is measured.
"""

import collections
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

# Characters of the program's last output that are kept, and how long it may take to end.
LONGEST_TAIL, END_S = 4000, 20.0
# How often it is looked whether Ray is still there.
PARENT_S = 1.0
# Lines passed on at a time.
MOST_LINES = 200


class NodeRelay:
    def __init__(self, arguments: Sequence[str]) -> None:
        self._lines: collections.deque[str] = collections.deque()
        self._tail = ""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin
        assert stdout
        assert stderr
        self._stdin = stdin
        self._readers = [
            threading.Thread(target=self._read_lines, args=(stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        threading.Thread(target=self._end_with_parent, args=(os.getppid(),), daemon=True).start()

    def send(self, line: str) -> None:
        # A program that has ended is reported by `receive`.
        with contextlib.suppress(OSError, ValueError):
            self._stdin.write(line + "\n")
            self._stdin.flush()

    def receive(self, wait_s: float) -> tuple[list[str], str | None]:
        """The next lines, as soon as there are any or after `wait_s`; and how the program ended, if it has."""
        end = time.monotonic() + wait_s
        with self._changed:
            while not self._lines and self._reading() and time.monotonic() < end:
                self._changed.wait(min(wait_s, 1.0))
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MOST_LINES))]
            if lines or self._reading():
                return lines, None
        code = self._process.wait()
        return [], f"its program ended with code {code}: {self._tail}"

    def stop(self) -> None:
        """Ends the program, which ends what it measures."""
        with contextlib.suppress(OSError, ValueError):
            self._stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _end_with_parent(self, parent: int) -> None:
        """Ray on a node that comes back after its network was cut ends, and leaves this process behind."""
        while self._process.poll() is None:
            if os.getppid() != parent:
                self.stop()
                os._exit(1)
            time.sleep(PARENT_S)

    def _reading(self) -> bool:
        return any(reader.is_alive() for reader in self._readers)

    def _read_lines(self, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()

    def _read_log(self, stream: IO[str]) -> None:
        for line in stream:
            self._tail = (self._tail + line)[-LONGEST_TAIL:]

    def _environment(self) -> dict[str, str]:
        """The variables that this process began with, before Ray added its own."""
        try:
            with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
                pairs = [os.fsdecode(part).partition("=") for part in file.read().split(b"\0") if part]
            variables = {name: value for name, _, value in pairs}
        except OSError:
            variables = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        return {name: value for name, value in variables.items() if not name.startswith("RAY_")}
