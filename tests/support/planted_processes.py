"""Workloads that detach processes, stop and kill their ancestors or themselves, or end by what is no Exception.

TARE_PLUGINS loads them. PLANTED_NOTES is the folder in which a detached process leaves a file named by its pid.
"""

import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from planted import _plant as plant


def detach() -> None:
    """Starts a process by a double fork, which ignores what it can, and returns when that has said its pid."""
    folder = Path(os.environ["PLANTED_NOTES"])
    before = len(list(folder.glob("*.pid")))
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 256)
        note = folder / f"{os.getpid()}.part"
        note.touch()
        note.rename(note.with_suffix(".pid"))
        time.sleep(3600)
        os._exit(0)
    while len(list(folder.glob("*.pid"))) <= before:
        time.sleep(0.01)


def on_first_call(fault: Callable[[], None]) -> Callable[[int, Any], Any]:
    def apply(call: int, y: Any) -> Any:
        if call == 1:
            fault()
        return y

    return apply


def detach_and(end: Callable[[], None] = lambda: None) -> Callable[[], None]:
    def fault() -> None:
        detach()
        end()

    return fault


def ancestor(generation: int) -> int:
    return int(psutil.Process().parents()[generation].pid)


def raising(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def close_everything() -> None:
    os.closerange(3, 4096)


def exhaust_descriptors() -> None:
    try:
        while True:
            os.open(os.devnull, os.O_RDONLY)
    except OSError:
        pass


def fill_the_disk() -> None:
    """As far as this process can tell."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    Path(os.environ["PLANTED_NOTES"], "full").write_bytes(b"x")


def let_a_child_answer() -> None:
    """The worker ends, and its child goes on as if it were the worker."""
    if os.fork():
        os._exit(0)


for _name, _fault in {
    "detach": detach_and(),
    "detach_hang": detach_and(lambda: time.sleep(3600)),
    "detach_abort": detach_and(os.abort),
    # The parent of a worker is its reaper; above that is the fork server, or tare.
    "kill_parent": detach_and(lambda: os.kill(os.getppid(), signal.SIGKILL)),
    "stop_parent": detach_and(lambda: os.kill(os.getppid(), signal.SIGSTOP)),
    "stop_server": lambda: os.kill(ancestor(1), signal.SIGSTOP),
    "kill_server": lambda: os.kill(ancestor(1), signal.SIGKILL),
    "stop_self": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "kill_self": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "system_exit": raising(SystemExit("the weights are gone\nand more")),
    "system_exit_0": raising(SystemExit(0)),
    "interrupt": raising(KeyboardInterrupt("pressed by a library")),
    "generator_exit": raising(GeneratorExit("closed early")),
    "unprintable": raising(Unprintable()),
    "closed": close_everything,
    "full": fill_the_disk,
    "exhausted": exhaust_descriptors,
    "child_answers": let_a_child_answer,
}.items():
    plant(_name, on_first_call(_fault))
