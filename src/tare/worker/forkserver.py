"""The fork server: a process that has torch imported, touches no device, and forks a worker for each job.

Our own instead of multiprocessing's, because the parent must learn how a worker ended (which signal), must be able
to kill it with everything it started, and its workers must not outlive it.
"""

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from tare.system.processes import die_with_parent, kill_group

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
            # raise any exception.
            with contextlib.suppress(Exception):
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
        self._workers: set[int] = set()
        self._wake, wake_end = socket.socketpair()
        for end in (self._wake, wake_end):
            end.setblocking(False)
        self._wake_end = wake_end
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        self._say({"ready": os.getpid()})
        with selectors.DefaultSelector() as ready:
            ready.register(self._connection, selectors.EVENT_READ)
            ready.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._wake:
                        self._wake.recv(4096)
                        self._reap()
                    elif not self._request():
                        self._end()

    def _request(self) -> bool:
        """Starts the worker that a request asks for; False when the parent is gone."""
        text, descriptors = b"", []
        while not text.endswith(b"\n"):
            try:
                part, got, _, _ = socket.recv_fds(self._connection, 65536, 2)
            except OSError:
                # The parent is gone.
                part, got = b"", []
            if not part:
                return False
            text += part
            descriptors += got
        messages, log = descriptors
        pid = os.fork()
        if pid == 0:
            self._become_worker(text, messages, log)
        os.close(messages)
        os.close(log)
        self._workers.add(pid)
        self._say({"pid": pid})
        return True

    def _become_worker(self, text: bytes, messages: int, log: int) -> NoReturn:
        code = 70
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            self._connection.close()
            self._wake.close()
            self._wake_end.close()
            die_with_parent()
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
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

    def _reap(self) -> None:
        for pid in list(self._workers):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._workers.discard(pid)
                self._say({"exited": pid, "status": status})

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        """Kills all workers, because the parent is gone."""
        for pid in self._workers:
            kill_group(pid)
        os._exit(0)


if __name__ == "__main__":
    main()
