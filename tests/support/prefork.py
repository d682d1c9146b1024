"""Commands of tare forked from a process that has imported what they import: each is still a process of its own,
with its own environment, descriptors and exit code, and begins in a twentieth of a second instead of one.

That a command works in an interpreter of its own, with nothing imported, is shown by those that the tests of
streams, faults and the wheel start.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

# What the verbs are made of, and what they and Typer import late. Workloads and rungs are not among it: plug-ins
# are found together with them, and each command has its own.
PACKAGES = ("tare.cli", "tare.commands", "tare.guard", "tare.report", "tare.store")
LATE = ("sqlalchemy.dialects.sqlite", "rich.live", "rich.table", "pydantic.fields", "typer._adapters")
# Read by the interpreter when it begins: another value needs another interpreter. PYTHONPATH is seen to here.
EARLY = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_", "OMP_", "OPENBLAS_")


class Prefork:
    """One a test process; it ends with it, for nobody holds the other end of its socket then."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno())]
        # Pipes, as a command will have: what an interpreter knows of its streams it finds out when it begins.
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=nothing, stdout=pipe, stderr=pipe
        )
        theirs.close()
        self._replies = self._socket.makefile("r")
        self._began = _early(os.environ)
        self._turn = threading.Lock()

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a command in this environment may be forked from a process that began in another."""
        return _early(environment) == self._began

    def run(
        self, args: tuple[str, ...], environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        with self._turn, contextlib.ExitStack() as stack:
            pipes = [os.pipe() for _ in range(2)]
            request = {"args": args, "environment": dict(environment), "cwd": str(Path.cwd())}
            for read, _ in pipes:
                stack.callback(os.close, read)
            text = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(self._socket, [text], [write for _, write in pipes])
            self._socket.sendall(text[sent:])
            for _, write in pipes:
                os.close(write)
            pid = json.loads(self._replies.readline())["pid"]
            try:
                out, err = _read_all([read for read, _ in pipes], timeout)
            except TimeoutError:
                os.kill(pid, 9)
                raise subprocess.TimeoutExpired(["tare", *args], timeout) from None
            finally:
                code = json.loads(self._replies.readline())["code"]
            return subprocess.CompletedProcess(["tare", *args], code, out.decode(), err.decode())


@cache
def prefork() -> Prefork:
    return Prefork()


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(EARLY) and name != "PYTHONPATH"}


def _read_all(descriptors: list[int], timeout: float) -> list[bytes]:
    """What comes from each until nobody is left who could write to it."""
    parts: dict[int, list[bytes]] = {descriptor: [] for descriptor in descriptors}
    end = time.monotonic() + timeout
    with selectors.DefaultSelector() as ready:
        for descriptor in descriptors:
            ready.register(descriptor, selectors.EVENT_READ)
        while ready.get_map():
            if time.monotonic() > end:
                raise TimeoutError
            for key, _ in ready.select(1.0):
                part = os.read(key.fd, 65536)
                if part:
                    parts[key.fd].append(part)
                else:
                    ready.unregister(key.fd)
    return [b"".join(parts[descriptor]) for descriptor in descriptors]


def serve(connection: socket.socket) -> None:
    """Forks a command for each request, and says how it ended."""
    for package in PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in LATE:
        # Another version of a library may not have it.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert "torch" not in sys.modules, "no command of tare has torch in its own process"
    while True:
        text, descriptors = b"", []
        while not text.endswith(b"\n"):
            part, got, _, _ = socket.recv_fds(connection, 65536, 2)
            if not part:
                return
            text += part
            descriptors += got
        pid = os.fork()
        if pid == 0:
            connection.close()
            become(json.loads(text), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(json.dumps({"pid": pid}).encode() + b"\n")
        _, status = os.waitpid(pid, 0)
        connection.sendall(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def become(request: dict[str, Any], out: int, err: int) -> NoReturn:
    """`python -m tare ARGS` in the environment asked for. It ends as any interpreter does."""
    for target, descriptor in ((1, out), (2, err)):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for path in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if path and path not in sys.path:
            sys.path.insert(0, path)
    sys.path.insert(0, request["cwd"])
    sys.argv = ["tare", *request["args"]]
    from tare.cli import main

    main()


if __name__ == "__main__":
    # It lies beside modules of the same names as others': what a command finds there is for its PYTHONPATH to say.
    sys.path.pop(0)
    serve(socket.socket(fileno=int(sys.argv[1])))
