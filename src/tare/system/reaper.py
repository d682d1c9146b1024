"""The reaper of a worker: its parent process, which ends everything that the worker started.

Linux gives an orphan to the nearest ancestor that has asked for orphans (PR_SET_CHILD_SUBREAPER). So whatever a
worker detaches, by setsid or by a double fork, stays below its reaper. The reaper ends when the worker has ended,
or when the other end of the control socket is closed, which is also how it learns that tare was killed. Before it
ends, it kills all that is left below it.

This is also a program (`python -I -S reaper.py CONTROL`), so it imports little, all of the standard library.
"""

import contextlib
import ctypes
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
OOM_SCORE = "/proc/self/oom_score_adj"
# How long processes that were killed may take to disappear: one that waits for a device does not.
KILL_S = 5.0


def adopt_orphans() -> None:
    """Makes this process the parent of all orphans below it (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """The kernel kills this process when its parent dies, however that happens (Linux only). When memory runs out,
    the kernel should choose a worker and not tare, which keeps the results."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError), open(OOM_SCORE, "w") as score:  # noqa: PTH123
        score.write("1000")


class Process(NamedTuple):
    pid: int
    parent: int
    group: int


def processes() -> Iterator[Process]:
    """Every process of this machine. Dead ones that nobody has waited for are included: the main thread of a
    process can end before the others."""
    if sys.platform != "linux":
        with os.popen("ps -A -o pid= -o ppid= -o pgid=") as lines:
            for line in lines:
                yield Process(*map(int, line.split()))
        return
    for name in os.listdir("/proc"):  # noqa: PTH208
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    # The name of the program, in parentheses, may contain anything.
                    _, parent, group = file.read().rpartition(b")")[2].split()[:3]
                yield Process(int(name), int(parent), int(group))


def descendants(pid: int) -> set[Process]:
    """All processes below one."""
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    below: set[Process] = set()
    pending = [pid]
    while pending:
        new = set(children.get(pending.pop(), ())) - below
        below |= new
        pending += [process.pid for process in new]
    return below


def signal_descendants(pid: int, number: int) -> None:
    """Signals all processes below one, also those that are started while this happens."""
    signalled: set[Process] = set()
    for _ in range(10):
        new = descendants(pid) - signalled
        _signal(new, pid, number)
        if not new:
            return
        signalled |= new


def _signal(below: set[Process], root: int, number: int) -> None:
    """Signals the processes below a reaper. A group of theirs has no other members, because each worker leads a
    session; and the kernel signals a whole group at once, also processes that live until they have forked the
    next."""
    own = {process.group for process in below}
    with contextlib.suppress(OSError):
        own.discard(os.getpgid(root))
    for group in own:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for process in below:
        with contextlib.suppress(OSError):
            os.kill(process.pid, number)


def run(control: int, worker_only: tuple[int, ...], become_worker: Callable[[int], None]) -> NoReturn:
    """Makes this process the reaper of a new worker, which leads a session of its own. Sends on the control socket
    the pids of the reaper and of the worker, or the error that `become_worker` raised; in the end the wait status
    of the worker. `become_worker` gets a descriptor that it closes when nothing can fail any more, as executing a
    program does. The reaper closes the descriptors that are `worker_only`."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    wake, wake_end = os.pipe()
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    fault, fault_end = os.pipe()
    worker = os.fork()
    if worker == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for descriptor in (control, wake, wake_end, fault):
                os.close(descriptor)
            os.setsid()
            die_with_parent()
            become_worker(fault_end)
        except OSError as error:
            os.write(fault_end, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    for descriptor in (*worker_only, fault_end):
        os.close(descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    if error_number := os.read(fault, 100):
        _send(control, b"failed %s\n" % error_number)
        os._exit(1)
    _send(control, b"started %d %d\n" % (os.getpid(), worker))
    status = None
    # Not select.select, which takes no descriptor above 1023.
    events = select.poll()
    events.register(control, select.POLLIN)
    events.register(wake, select.POLLIN)
    while status is None:
        ready = dict(events.poll())
        if wake in ready:
            os.read(wake, 4096)
            status = _collect(worker)
        if control in ready and not _receive(control, 1):
            break
    with contextlib.suppress(OSError):
        os.killpg(worker, signal.SIGKILL)
    _kill_all()
    if status is not None:
        _send(control, b"ended %d\n" % status)
    os._exit(0)


def _send(control: int, line: bytes) -> None:
    # If tare is gone, the next look at the socket shows it.
    with contextlib.suppress(OSError):
        os.write(control, line)


def _receive(control: int, count: int) -> bytes:
    try:
        return os.read(control, count)
    except OSError:
        return b""


def _collect(worker: int) -> int | None:
    """Waits for all children that have ended; the status of the worker if it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == worker:
                status = ended
    return status


def _kill_all() -> None:
    """Kills everything below this process. On Linux nothing can leave, so this ends when it has no children."""
    end = time.monotonic() + KILL_S
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        _signal(descendants(os.getpid()), os.getpid(), signal.SIGKILL)
        time.sleep(0.001)


def main() -> NoReturn:
    """Reads from the control socket the arguments and the environment of the program: a preloaded library must not
    come into this process, and every user of the machine can see its command line."""
    control = int(sys.argv[1])
    size = int.from_bytes(_receive(control, 8), "little")
    text = b""
    while len(text) < size:
        part = _receive(control, size - len(text))
        if not part:
            os._exit(1)
        text += part
    command, environment, worker_only = marshal.loads(text)

    def become_program(_: int) -> NoReturn:
        # Python ignores these, and a program would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)

    run(control, worker_only, become_program)


if __name__ == "__main__":
    main()
