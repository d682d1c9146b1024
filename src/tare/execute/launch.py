"""Starting workers: forked from a server, or each as a program of its own. Both give a process to supervise."""

import contextlib
import errno
import marshal
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import msgspec

from tare.errors import TareError
from tare.protocol.jobs import Job
from tare.protocol.messages import DESCRIPTOR
from tare.records.record import Cause
from tare.system import reaper
from tare.system.processes import is_stopped, kill_group, kill_marked
from tare.workloads.own.registry import variables as own_models

# Importing torch from a cold disk can take minutes; a server that needs longer than this hangs.
SERVER_START_S = 300.0
# A server or a reaper that needs longer to start a worker is stopped or hangs.
START_S = 20.0
# How long a worker that was killed may take to end, with all that it started.
END_S = 10.0
# The environment variable by which the processes of a worker are found where nothing else shows whose they are.
MARKER = "TARE_WORKER"


class CannotStart(TareError):
    """A worker cannot be started; by default because its program does not exist or cannot be executed."""

    def __init__(self, message: str, cause: Cause = "not-installed") -> None:
        super().__init__(message)
        self.cause = cause


class ReaperLost(Exception):
    """The reaper of a worker did not say that it has started the worker."""

    def __str__(self) -> str:
        return "its parent process ended"


class WorkerProcess:
    """A running worker and its reaper (tare.system.reaper). `messages`, `log` and `control` are descriptors that a
    supervisor waits for; the last is readable when the worker has ended. It was started after `began_ns`, by
    CLOCK_MONOTONIC."""

    def __init__(
        self, pipes: "_WorkerPipes", marker: str = "", child: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Waits for the start of the worker; ReaperLost if it does not come, CannotStart if it is impossible. The
        reaper is a `child` of this process, or of the fork server."""
        self._control, self._marker, self._child = pipes.control, marker, child
        self.messages, self.log, self.control = pipes.messages, pipes.log, pipes.control.fileno()
        self.began_ns = pipes.made_ns
        self._buffer = b""
        self._has_ended = False
        # Whether the reaper ended without a report: something killed it.
        self.is_lost = False
        match self._read(START_S):
            case [b"started", reaper_pid, pid]:
                self.reaper, self.pid = int(reaper_pid), int(pid)
            case [b"failed", number]:
                cause: Cause = "exception" if int(number) in (errno.EAGAIN, errno.ENOMEM) else "not-installed"
                raise CannotStart(os.strerror(int(number)), cause)
            case _:
                raise ReaperLost

    def poll(self, wait_s: float = 0.0) -> int | None:
        """The wait status of the worker, when nothing of it is left; None while it runs. SIGKILL where the reaper
        was killed, and the worker with it."""
        match self._read(wait_s):
            case [b"ended", status]:
                self._has_ended = True
                return int(status)
            case []:
                return None
        self.is_lost = True
        return int(signal.SIGKILL)

    def kill(self) -> None:
        """Kills the worker with everything it started. Its reaper reports the end."""
        reaper.signal_descendants(self.reaper, signal.SIGKILL)

    def is_reaper_stopped(self) -> bool:
        return is_stopped(self.reaper)

    def close(self) -> None:
        """Ends the worker, if it runs, and its reaper."""
        if not self._has_ended:
            kill_group(self.pid)
        if not (self._has_ended or self.is_lost) and self._read(0.0) == []:
            # A reaper that is stopped, or that waits for a process that cannot be killed, does not end by itself.
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            if self.is_reaper_stopped() or self._read(END_S) == []:
                self.kill()
                with contextlib.suppress(OSError):
                    os.kill(self.reaper, signal.SIGKILL)
        if self._marker and (self.is_lost or sys.platform != "linux"):
            kill_marked(MARKER, self._marker)
        self._control.close()
        os.close(self.messages)
        os.close(self.log)
        if self._child:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(END_S)

    def _read(self, wait_s: float) -> list[bytes] | None:
        """The words of the next line; empty after `wait_s`, and None where the reaper is gone."""
        end = time.monotonic() + wait_s
        while b"\n" not in self._buffer:
            self._control.settimeout(max(end - time.monotonic(), 0))
            try:
                part = self._control.recv(4096)
            except (TimeoutError, BlockingIOError):
                return []
            except ConnectionError:
                part = b""
            if not part:
                return None
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.split()


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
        # Several threads may each start a worker.
        self._lock = threading.Lock()

    def launch(self, job: Job) -> WorkerProcess:
        """A server that was killed or stopped is replaced once; the workers that it had forked go on."""
        with self._lock:
            for _ in range(2):
                if self._server is None or self._server.poll() is not None or self._stays_stopped():
                    self.renew()
                with contextlib.suppress(ReaperLost):
                    return self._fork(job)
                self._end(patience_s=0)
        raise CannotStart("the fork server died while starting a worker; try --isolation spawn", "exception")

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
            env={**os.environ, **own_models(), **self._variables},
        )
        theirs.close()
        self._socket.settimeout(SERVER_START_S)
        try:
            is_ready = bool(self._socket.recv(1))
        except OSError:
            is_ready = False
        if not is_ready:
            self.close()
            raise TareError("the fork server did not start; try --isolation spawn")

    def close(self) -> None:
        self._end(patience_s=2)

    def _end(self, patience_s: float) -> None:
        """Closes the connection, at which the server ends; kills it if it does not."""
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            try:
                self._server.wait(patience_s)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._server = self._socket = None

    def _stays_stopped(self) -> bool:
        """Whether something has stopped the server (SIGSTOP). After Ctrl-Z and `fg` it continues in a moment."""
        assert self._server is not None
        if not is_stopped(self._server.pid):
            return False
        time.sleep(1)
        return is_stopped(self._server.pid)

    def _fork(self, job: Job) -> WorkerProcess:
        assert self._socket is not None
        with _worker_pipes() as pipes:
            request = msgspec.json.encode(job) + b"\n"
            self._socket.settimeout(START_S)
            # Where the server is gone or stopped, there is no answer.
            with contextlib.suppress(OSError):
                sent = socket.send_fds(self._socket, [request], pipes.worker_ends)
                self._socket.sendall(request[sent:])
            pipes.close_worker_ends()
            return WorkerProcess(pipes)


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
        marker = secrets.token_hex(8)
        with _worker_pipes() as pipes:
            messages_end, log_end, control_end = pipes.worker_ends
            environment = {
                **os.environ,
                **own_models(),
                **self._variables,
                DESCRIPTOR: str(messages_end),
                MARKER: marker,
            }
            # Isolated and without the site's packages, the reaper starts in a thirtieth of a second.
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", reaper.__file__, str(control_end)],
                stdin=subprocess.PIPE,
                stdout=log_end,
                stderr=log_end,
                pass_fds=[messages_end, control_end],
            )
            assert child.stdin is not None
            pipes.close_worker_ends()
            program = (
                [os.fsencode(part) for part in self._command],
                {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
                (messages_end,),
            )
            text = marshal.dumps(program)
            try:
                # Where the reaper or the worker is gone, there is no answer.
                with contextlib.suppress(OSError), child.stdin as stdin:
                    pipes.control.sendall(len(text).to_bytes(8, "little") + text)
                    stdin.write(msgspec.json.encode(job))
                return WorkerProcess(pipes, marker, child)
            except BaseException as error:
                child.kill()
                child.wait()
                if isinstance(error, CannotStart | ReaperLost):
                    message = f"cannot start {self._command[0]}: {error}"
                    raise CannotStart(message, getattr(error, "cause", "exception")) from None
                raise


class _WorkerPipes:
    """The pipes for the messages and the log of a worker, and the control socket of its reaper: our ends, and the
    worker's ends."""

    def __init__(self) -> None:
        self.made_ns = time.monotonic_ns()
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            self.messages, messages_end = os.pipe()
            ours.callback(os.close, self.messages)
            theirs.callback(os.close, messages_end)
            self.log, log_end = os.pipe()
            ours.callback(os.close, self.log)
            theirs.callback(os.close, log_end)
            self.control, control_end = socket.socketpair()
            ours.callback(self.control.close)
            theirs.callback(control_end.close)
            self.worker_ends = (messages_end, log_end, control_end.fileno())
            self._ours, self._theirs = ours.pop_all(), theirs.pop_all()

    def close_worker_ends(self) -> None:
        """To be called when the worker has inherited them."""
        self._theirs.close()

    def close(self) -> None:
        self._ours.close()


@contextlib.contextmanager
def _worker_pipes() -> Iterator[_WorkerPipes]:
    """Our ends stay open if the worker has been started."""
    pipes = _WorkerPipes()
    try:
        yield pipes
    except BaseException:
        pipes.close()
        raise
    finally:
        pipes.close_worker_ends()
