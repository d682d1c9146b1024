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
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

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


class WorkerProcess(NamedTuple):
    """A running worker. `messages` and `log` are descriptors to read. `poll` waits for its end, for as many
    seconds as it is given at most, and returns its wait status, or None while it runs."""

    pid: int
    messages: int
    log: int
    poll: Callable[[float], int | None]


class Launcher:
    """Starts workers. `renew` replaces what they share, if they share anything; `close` ends it."""

    isolation: str

    def launch(self, job: Job) -> WorkerProcess:
        raise NotImplementedError

    def renew(self, preload: tuple[str, ...] | None = None) -> None: ...
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


class _ServerLost(Exception):
    """The fork server did not start the worker that it was asked for."""


class ForkLauncher(Launcher):
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
        self._preload, self._python, self._variables = preload, python, dict(variables or {})
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._buffer = b""
        # Several threads may each supervise a worker. All exits come through the one socket.
        self._lock = threading.RLock()
        self._exited: dict[int, int] = {}

    def launch(self, job: Job) -> WorkerProcess:
        """A server that was killed is replaced once; the workers it had forked died with it."""
        with self._lock:
            for _ in range(2):
                if self._server is None or self._server.poll() is not None:
                    self.renew()
                with contextlib.suppress(_ServerLost):
                    return self._fork(job)
                self.close()
        raise TareError("the fork server died while starting a worker; try --isolation spawn")

    def renew(self, preload: tuple[str, ...] | None = None) -> None:
        """Starts another server, with other preloaded modules if given, and waits for the end of its imports: they
        would disturb a measurement."""
        self.close()
        self._preload = self._preload if preload is None else preload
        self._socket, theirs = socket.socketpair()
        command = [self._python, "-m", "tare.worker.forkserver", "--socket", str(theirs.fileno())]
        # What its imports print is no part of our output, so it goes to stderr.
        self._server = subprocess.Popen(
            [*command, "--preload", ",".join(self._preload)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env={**os.environ, **self._variables},
        )
        theirs.close()
        if "ready" not in self._read_reply(SERVER_START_S):
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

    def _fork(self, job: Job) -> WorkerProcess:
        assert self._socket is not None
        server = self._server
        with _worker_pipes() as (messages, log, worker_ends):
            request = msgspec.json.encode(job) + b"\n"
            # Where the server is gone, reading its reply shows that.
            with contextlib.suppress(ConnectionError):
                sent = socket.send_fds(self._socket, [request], worker_ends)
                self._socket.sendall(request[sent:])
            # Exits of other workers may come before the reply.
            while "exited" in (reply := self._read_reply(FORK_S)):
                pass
            if "pid" not in reply:
                raise _ServerLost
            pid = reply["pid"]
            # The exit of a previous worker with the same pid may never have been asked for.
            self._exited.pop(pid, None)
            return WorkerProcess(pid, messages, log, lambda wait_s: self._poll(pid, server, wait_s))

    def _poll(self, pid: int, server: subprocess.Popen[bytes] | None, wait_s: float) -> int | None:
        """All workers of a server that was killed ended by SIGKILL."""
        with self._lock:
            lost = self._server is not server
            if not lost and pid not in self._exited:
                lost = "lost" in self._read_reply(wait_s)
            if not lost:
                return self._exited.pop(pid, None)
            if self._server is server:
                self.close()
        kill_group(pid)
        return int(signal.SIGKILL)

    def _read_reply(self, wait_s: float) -> dict[str, int]:
        """The server's next line, empty after `wait_s`; {"lost": 1} if the server is gone. The exit of a worker is
        kept."""
        assert self._socket is not None
        end = time.monotonic() + wait_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._socket], [], [], max(end - time.monotonic(), 0))
            if not ready:
                return {}
            try:
                part = self._socket.recv(65536)
            except ConnectionError:
                part = b""
            if not part:
                return {"lost": 1}
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: dict[str, int] = json.loads(line)
        if "exited" in reply:
            self._exited[reply["exited"]] = reply["status"]
        return reply


class SpawnLauncher(Launcher):
    """Each worker is a program of its own: a new interpreter, or the executable of a native rung."""

    def __init__(
        self,
        command: tuple[str, ...] = (sys.executable, "-m", "tare.worker.process"),
        isolation: str = "spawn",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self.isolation, self._variables = command, isolation, dict(variables or {})

    def launch(self, job: Job) -> WorkerProcess:
        with _worker_pipes() as (messages, log, (messages_end, log_end)):
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
                raise CannotStart(f"cannot start {self._command[0]}: {error.strerror or error}") from error
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(job))
            process.stdin.close()

        def poll(wait_s: float) -> int | None:
            try:
                code = process.wait(wait_s)
            except subprocess.TimeoutExpired:
                return None
            return -code if code < 0 else code << 8

        return WorkerProcess(process.pid, messages, log, poll)


@contextlib.contextmanager
def _worker_pipes() -> Iterator[tuple[int, int, tuple[int, int]]]:
    """The pipes for the messages and the log of a worker: our ends, which stay open if it has been started, and
    the worker's ends, which it has inherited by the end of the context."""
    messages, messages_end = os.pipe()
    log, log_end = os.pipe()
    try:
        yield messages, log, (messages_end, log_end)
    except BaseException:
        os.close(messages)
        os.close(log)
        raise
    finally:
        os.close(messages_end)
        os.close(log_end)
