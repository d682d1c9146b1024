"""Starting workers: forked from a server, or each as a program of its own. Both give a process to supervise."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Protocol

import msgspec

from tare.errors import TareError
from tare.protocol.jobs import Job
from tare.protocol.messages import DESCRIPTOR
from tare.system.processes import kill_group

# Importing torch from a cold disk can take minutes; a server that needs longer than this hangs.
SERVER_START_S = 300.0
FORK_S = 60.0


class CannotStart(TareError):
    """The program of a worker does not exist or cannot be executed."""


class WorkerProcess(Protocol):
    """A running worker. `messages` and `log` are descriptors to read; `poll` returns its wait status at its
    end."""

    pid: int
    messages: int
    log: int

    def poll(self, wait_s: float) -> int | None: ...


class Launcher(Protocol):
    isolation: str

    def launch(self, job: Job) -> WorkerProcess: ...
    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        """Replaces what its workers share, with other preloaded modules if given; `settle` waits for the end."""

    def settle(self) -> None: ...
    def close(self) -> None: ...


def make_launcher(
    isolation: str,
    preload: tuple[str, ...] = (),
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Launcher:
    """Workers of this version of tare, or of another one by another `python` or other environment `variables`."""
    if isolation == "fork":
        return ForkLauncher(preload, python, variables)
    return SpawnLauncher((python, "-m", "tare.worker.process"), variables=variables)


class ForkLauncher:
    """Workers forked from a server that has torch imported: a fresh process for the price of a fork.

    Its workers share the server's memory layout and hash seed, and so a speed that another server of the same
    version may not have. `renew` starts another server.
    """

    isolation = "fork"

    def __init__(
        self,
        preload: tuple[str, ...] = (),
        python: str = sys.executable,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._preload = preload
        self._python = python
        self._variables = dict(variables or {})
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._buffer = b""
        # Several threads may each supervise a worker. All exits come through the one socket.
        self._lock = threading.RLock()
        self._exited: dict[int, int] = {}

    def launch(self, job: Job) -> "_ForkedWorker":
        """A server that was killed is replaced once; the workers it had forked died with it."""
        with self._lock:
            for _ in range(2):
                if self._server is None or self._server.poll() is not None:
                    self.renew()
                    self.settle()
                worker = self._fork(job)
                if worker is not None:
                    return worker
                self.close()
        raise TareError("the fork server died while starting a worker; try --isolation spawn")

    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        self.close()
        self._preload = self._preload if preload is None else preload
        ours, theirs = socket.socketpair()
        command = [self._python, "-m", "tare.worker.forkserver", "--socket", str(theirs.fileno())]
        command += ["--preload", ",".join(self._preload)]
        # What its imports print is no part of our output, so it goes to stderr.
        self._server = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env={**os.environ, **self._variables},
        )
        theirs.close()
        self._socket = ours

    def settle(self) -> None:
        """Waits until the server has imported everything: it would disturb a measurement."""
        reply = self._read_reply(SERVER_START_S)
        if reply is None or "ready" not in reply:
            self.close()
            raise TareError("the fork server did not start; try --isolation spawn")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            try:
                self._server.wait(5)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._server = self._socket = None
        self._buffer = b""
        self._exited = {}

    def status_of(self, worker: "_ForkedWorker", wait_s: float) -> int | None:
        """The wait status of a worker that has ended. All workers of a server that was killed ended by SIGKILL."""
        with self._lock:
            lost = self._server is not worker.server
            if not lost and worker.pid not in self._exited:
                lost = "lost" in (self._read_exit(wait_s) or {})
            if not lost:
                return self._exited.pop(worker.pid, None)
            if self._server is worker.server:
                self.close()
        kill_group(worker.pid)
        return int(signal.SIGKILL)

    def _fork(self, job: Job) -> "_ForkedWorker | None":
        assert self._socket is not None
        messages, messages_end = os.pipe()
        log, log_end = os.pipe()
        try:
            request = msgspec.json.encode(job) + b"\n"
            sent = socket.send_fds(self._socket, [request], [messages_end, log_end])
            self._socket.sendall(request[sent:])
        except ConnectionError:
            # The server is gone, and reading its reply will show that.
            pass
        finally:
            os.close(messages_end)
            os.close(log_end)
        # Exits of other workers may come before the reply.
        while (reply := self._read_exit(FORK_S)) is not None and "exited" in reply:
            pass
        if reply is not None and "pid" in reply:
            assert self._server is not None
            # The exit of a previous worker with the same pid may never have been asked for.
            self._exited.pop(reply["pid"], None)
            return _ForkedWorker(self, self._server, reply["pid"], messages, log)
        os.close(messages)
        os.close(log)
        return None

    def _read_exit(self, wait_s: float) -> dict[str, int] | None:
        """The server's next reply; if it tells of a worker's exit, that is kept."""
        reply = self._read_reply(wait_s)
        if reply is not None and "exited" in reply:
            self._exited[reply["exited"]] = reply["status"]
        return reply

    def _read_reply(self, wait_s: float) -> dict[str, int] | None:
        """The server's next line, or None after `wait_s`; {"lost": 1} if the server is gone."""
        assert self._socket is not None
        end = time.monotonic() + wait_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._socket], [], [], max(end - time.monotonic(), 0))
            if not ready:
                return None
            try:
                part = self._socket.recv(65536)
            except ConnectionError:
                part = b""
            if not part:
                return {"lost": 1}
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: dict[str, int] = json.loads(line)
        return reply


class _ForkedWorker:
    def __init__(
        self, launcher: ForkLauncher, server: subprocess.Popen[bytes], pid: int, messages: int, log: int
    ) -> None:
        self._launcher, self.server = launcher, server
        self.pid, self.messages, self.log = pid, messages, log

    def poll(self, wait_s: float) -> int | None:
        return self._launcher.status_of(self, wait_s)


class SpawnLauncher:
    """Each worker is a program of its own: a new interpreter, or the executable of a native rung."""

    def __init__(
        self,
        command: tuple[str, ...] = (sys.executable, "-m", "tare.worker.process"),
        isolation: str = "spawn",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self.isolation = isolation
        self._variables = dict(variables or {})

    def launch(self, job: Job) -> "_SpawnedWorker":
        messages, messages_end = os.pipe()
        log, log_end = os.pipe()
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log_end,
                stderr=log_end,
                pass_fds=[messages_end],
                start_new_session=True,
                env={**os.environ, **self._variables, DESCRIPTOR: str(messages_end)},
            )
        except OSError as error:
            os.close(messages)
            os.close(log)
            raise CannotStart(f"cannot start {self._command[0]}: {error.strerror or error}") from error
        finally:
            os.close(messages_end)
            os.close(log_end)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(job))
            process.stdin.close()
        return _SpawnedWorker(process, messages, log)

    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        """Its workers share nothing."""

    def settle(self) -> None:
        pass

    def close(self) -> None:
        pass


class _SpawnedWorker:
    def __init__(self, process: subprocess.Popen[bytes], messages: int, log: int) -> None:
        self._process = process
        self.pid, self.messages, self.log = process.pid, messages, log

    def poll(self, wait_s: float) -> int | None:
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        return -code if code < 0 else code << 8
