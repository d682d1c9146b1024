"""Runs a command as often as asked, and times each run from its start to its end. This is a program of its own.

Linux counts the peak memory of the process that starts a program as memory of that program (ru_maxrss), so that
process has to be small: this one takes 10 MiB, a worker several times as much. So it imports little, all of the
standard library.
"""

import contextlib
import marshal
import os
import signal
import sys
import time
from typing import NamedTuple


class ProcessRun(NamedTuple):
    """One run of a command. `status` is the exit status, or minus the number of the signal that ended it; `peak`
    the peak resident memory of the largest process, in bytes; what is below `floor` cannot be told. The CPU times
    are those of all processes that were waited for. `error` is the errno of a program that cannot be started."""

    at_ns: int = 0
    wall_ns: int = 0
    status: int = 0
    peak: int = 0
    floor: int = 0
    user_us: int = 0
    system_us: int = 0
    error: int = 0


def run_once(arguments: list[bytes], stderr: int) -> ProcessRun:
    """Runs the command to its end, without input, and throws its output away. Whatever of its process group it has
    left running is killed: it would disturb the next run."""
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    start = time.perf_counter_ns()
    try:
        pid = os.posix_spawnp(
            arguments[0],
            arguments,
            os.environ,
            file_actions=[*null, (os.POSIX_SPAWN_DUP2, stderr, 2)],
            setpgroup=0,
            # Python ignores these, and a program would inherit that.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        return ProcessRun(error=error.errno or -1)
    _, status, usage = os.wait4(pid, 0)
    wall_ns = time.perf_counter_ns() - start
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    return ProcessRun(
        at_ns=start,
        wall_ns=wall_ns,
        status=os.waitstatus_to_exitcode(status),
        # macOS counts it in bytes, the others in KiB.
        peak=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        floor=_own_peak(),
        user_us=round(usage.ru_utime * 1e6),
        system_us=round(usage.ru_stime * 1e6),
    )


def _own_peak() -> int:
    """The peak memory of this process, in bytes; 0 where the kernel does not count it as that of a program."""
    with contextlib.suppress(OSError), open("/proc/self/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """On standard input: the arguments of the command (marshal), then a byte for every run. On standard output: a
    line with the figures of each run. The descriptor for the standard error of the command is the first argument.
    """
    stderr = int(sys.argv[1])
    os.set_inheritable(stderr, False)
    arguments = marshal.load(sys.stdin.buffer)
    while sys.stdin.buffer.read(1):
        print(*run_once(arguments, stderr), flush=True)


if __name__ == "__main__":
    main()
