"""Starting workers: from the fork server, or each as a program of its own. Both give a process to watch."""

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

# torch's import on a cold disk can take long; a server that needs more than this is stuck.
SERVER_START_S = 300.0


class Process(Protocol):
    """A running worker. `messages` and `log` are descriptors to read; `poll` gives the wait status at its end."""

    pid: int
    messages: int
    log: int

    def poll(self, wait_s: float) -> int | None: ...


class Launcher(Protocol):
    isolation: str

    def launch(self, job: Job) -> Process: ...
    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        """Gives up what workers share, and begins it anew, with other modules if they are given; `settle` waits
        until that is done."""

    def settle(self) -> None: ...
    def close(self) -> None: ...


class ForkLauncher:
    """Workers forked from a server that has torch imported: a fresh process for the price of a fork.

    But not in all: they share where the server's memory happens to lie and the seed of its hashes, and so a pace
    that another server of the same version may not have. `renew` draws all that again.
    """

    isolation = "fork"

    def __init__(
        self,
        preload: tuple[str, ...] = (),
        python: str = sys.executable,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`python` and `variables` (added to this process's) are those of another version of what is measured."""
        self._preload = preload
        self._python = python
        self._variables = dict(variables or {})
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._buffer = b""
        # Workers may be watched side by side, each by a thread of its own: they all hear of their end through the
        # one socket, and none takes another's.
        self._turn = threading.RLock()
        self._exited: dict[int, int] = {}

    def launch(self, job: Job) -> "_Forked":
        """A server that was killed meanwhile is replaced once; what it had forked dies with it."""
        with self._turn:
            for _ in range(2):
                if self._server is None or self._server.poll() is not None:
                    self.renew()
                    self.settle()
                forked = self._fork(job)
                if forked is not None:
                    return forked
                self.close()
        raise TareError("the fork server died while starting a worker; try --isolation spawn")

    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        self.close()
        self._preload = self._preload if preload is None else preload
        ours, theirs = socket.socketpair()
        command = [self._python, "-m", "tare.worker.forkserver", "--socket", str(theirs.fileno())]
        command += ["--preload", ",".join(self._preload)]
        environment = {**os.environ, **self._variables}
        # What its imports print is no part of our output, and goes where our own complaints go.
        self._server = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=2, env=environment
        )
        theirs.close()
        self._socket = ours

    def settle(self) -> None:
        """Waits until a server that was begun has all imported: it would disturb whoever is measured."""
        reply = self.read_reply(SERVER_START_S)
        if reply is None or "ready" not in reply:
            self.close()
            raise TareError("the fork server did not start; try --isolation spawn")

    def _fork(self, job: Job) -> "_Forked | None":
        assert self._socket is not None
        messages, messages_end = os.pipe()
        log, log_end = os.pipe()
        try:
            request = msgspec.json.encode(job) + b"\n"
            sent = socket.send_fds(self._socket, [request], [messages_end, log_end])
            self._socket.sendall(request[sent:])
        except ConnectionError:
            # Nobody is there: that is what the reply will say.
            pass
        finally:
            os.close(messages_end)
            os.close(log_end)
        reply = self._reply_to_request()
        if reply is not None and "pid" in reply:
            assert self._server is not None
            # Of one before it with the same number, whose end nobody has asked for.
            self._exited.pop(reply["pid"], None)
            return _Forked(self, self._server, reply["pid"], messages, log)
        os.close(messages)
        os.close(log)
        return None

    def _reply_to_request(self) -> dict[str, int] | None:
        """What the server says to a request, whoever ends meanwhile."""
        while (reply := self._hear(60.0)) is not None and "exited" in reply:
            pass
        return reply

    def _hear(self, wait_s: float) -> dict[str, int] | None:
        """The same as `read_reply`; who has ended is remembered."""
        reply = self.read_reply(wait_s)
        if reply is not None and "exited" in reply:
            self._exited[reply["exited"]] = reply["status"]
        return reply

    def status_of(self, worker: "_Forked", wait_s: float) -> int | None:
        """The wait status of a worker that has ended; to the parent a server that was killed is the end of all its
        workers by SIGKILL."""
        with self._turn:
            lost = self._server is not worker.server
            if not lost and worker.pid not in self._exited:
                lost = "lost" in (self._hear(wait_s) or {})
            if not lost:
                return self._exited.pop(worker.pid, None)
            if self._server is worker.server:
                self.close()
        kill_group(worker.pid)
        return int(signal.SIGKILL)

    def read_reply(self, wait_s: float) -> dict[str, int] | None:
        """The server's next line, or None after `wait_s`; a dead server answers {'lost': 1}."""
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


class _Forked:
    def __init__(
        self, launcher: ForkLauncher, server: subprocess.Popen[bytes], pid: int, messages: int, log: int
    ) -> None:
        self._launcher, self.server = launcher, server
        self.pid, self.messages, self.log = pid, messages, log

    def poll(self, wait_s: float) -> int | None:
        return self._launcher.status_of(self, wait_s)


class CannotStart(TareError):
    """A program that is not there, or is none."""


class SpawnLauncher:
    """Each worker a program of its own: a new interpreter, or the executable of a native rung."""

    def __init__(
        self,
        command: tuple[str, ...] = (sys.executable, "-m", "tare.worker.process"),
        isolation: str = "spawn",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self.isolation = isolation
        self._variables = dict(variables or {})

    def launch(self, job: Job) -> "_Spawned":
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
        return _Spawned(process, messages, log)

    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        """Its workers share nothing that could be."""

    def settle(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes], messages: int, log: int) -> None:
        self._process = process
        self.pid, self.messages, self.log = process.pid, messages, log

    def poll(self, wait_s: float) -> int | None:
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        return -code if code < 0 else code << 8
