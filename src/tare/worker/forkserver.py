"""The fork server: a process that has torch imported, touches no device, and forks a worker for each job.

Our own instead of multiprocessing's, because the parent must learn how a worker ended (which signal), must be able
to kill it with everything it started, and its workers must not outlive it. Each worker has a reaper for that: it
speaks to the parent itself, and nothing depends on this server once a worker has started.
"""

import argparse
import contextlib
import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import NoReturn

from tare.system import reaper

CUDA_ERROR_NOT_INITIALIZED = 3
# Makes torch answer whether there is a GPU, which packages ask on import, without initialising the driver.
QUIET_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
# Modules that every worker needs.
ALWAYS = ("torch", "scipy.special", "tare.worker.process", "tare.worker.round")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--preload", default="")
    args = parser.parse_args()
    # Ctrl-C reaches the whole foreground group: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wanted = [name for name in args.preload.split(",") if name]
    culprit = _preload([*ALWAYS, *wanted])
    if culprit in wanted:
        # This process cannot undo the import: it starts again, and leaves that module to the workers.
        wanted.remove(culprit)
        program = [sys.executable, "-m", "tare.worker.forkserver", "--socket", str(args.socket)]
        os.execv(sys.executable, [*program, "--preload", ",".join(wanted)])
    Server(socket.socket(fileno=args.socket)).serve()


def _preload(modules: list[str]) -> str | None:
    """Imports the modules; stops at the first that initialises the GPU's driver, and returns its name."""
    # Imports leave little garbage, and collecting it takes an eighth of the time of importing torch.
    gc.disable()
    check_before = os.environ.get(QUIET_CHECK)
    os.environ[QUIET_CHECK] = "1"
    try:
        for name in modules:
            # A failed import is reported by the job that needs it. A package that does not match its torch may
            # raise any exception, and a script that calls sys.exit() is no Exception.
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
            if _driver_is_awake():
                return name
    finally:
        gc.enable()
        del os.environ[QUIET_CHECK]
        if check_before is not None:
            os.environ[QUIET_CHECK] = check_before
    gc.collect()
    # In the children the collector would write to, and so copy, every shared page.
    gc.freeze()
    return None


def _driver_is_awake() -> bool:
    """Whether CUDA's driver is initialised here: a process forked after that cannot use a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        # It is not loaded.
        return False
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != CUDA_ERROR_NOT_INITIALIZED)


class Server:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reapers: set[int] = set()
        self._wake, wake_end = socket.socketpair()
        for end in (self._wake, wake_end):
            end.setblocking(False)
        self._wake_end = wake_end
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end.fileno(), warn_on_full_buffer=False)
        # For what a reaper leaves that was killed.
        reaper.adopt_orphans()

    def serve(self) -> NoReturn:
        """Until the parent closes the connection, or is gone."""
        with contextlib.suppress(OSError):
            self._connection.sendall(b"r")
        with selectors.DefaultSelector() as ready:
            ready.register(self._connection, selectors.EVENT_READ)
            ready.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._wake:
                        self._wake.recv(4096)
                        self._collect()
                    elif not self._request():
                        os._exit(0)

    def _request(self) -> bool:
        """Starts the worker that a request asks for; False when the parent is gone."""
        text, descriptors = b"", []
        while not text.endswith(b"\n"):
            try:
                part, got, _, _ = socket.recv_fds(self._connection, 65536, 3)
            except OSError:
                # The parent is gone.
                part, got = b"", []
            if not part:
                return False
            text += part
            descriptors += got
        messages, log, control = descriptors
        # If there can be no further process, the parent sees the end of the control socket.
        with contextlib.suppress(OSError):
            pid = os.fork()
            if pid == 0:
                self._become_reaper(text, messages, log, control)
            self._reapers.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _become_reaper(self, text: bytes, messages: int, log: int, control: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for end in (self._connection, self._wake, self._wake_end):
                end.close()
            reaper.run(control, (messages, log), lambda started: _become_worker(text, messages, log, started))
        finally:
            os._exit(70)

    def _collect(self) -> None:
        """Waits for the children that have ended, and kills those that were orphaned."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitpid(-1, os.WNOHANG)[0]:
                self._reapers.discard(ended)
        if sys.platform == "linux":
            own = os.getpid()
            for process in reaper.processes():
                if process.parent == own and process.pid not in self._reapers:
                    reaper.signal_descendants(process.pid, signal.SIGKILL)
                    with contextlib.suppress(OSError):
                        os.kill(process.pid, signal.SIGKILL)


def _become_worker(text: bytes, messages: int, log: int, started: int) -> NoReturn:
    code = 70
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.close(started)
        from tare.protocol.jobs import read_job
        from tare.protocol.messages import Channel
        from tare.worker.process import run_job

        code = run_job(read_job(text), Channel(messages).send)
    except BaseException:  # noqa: BLE001 - printed to the log that the parent keeps
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
