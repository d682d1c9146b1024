"""Whether the kernel killed for want of memory: by the worker's own group of processes, where it counts that."""

import contextlib
from pathlib import Path
from typing import NamedTuple

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class OomKills(NamedTuple):
    """How many the kernel has killed. `own` is in the worker's control group, None where nobody counts that."""

    own: int | None = None
    machine: int = 0


NONE_KILLED = OomKills()


class OomWatch:
    """Counts from now on."""

    def __init__(self, pid: int, proc: Path = PROC, groups: Path = GROUPS) -> None:
        self._machine = proc / "vmstat"
        # Found while the process lives: of one that has ended nobody knows where it was.
        self._own = _group_counter(pid, proc, groups)
        self._before = self._read()

    def kills(self) -> OomKills:
        now, before = self._read(), self._before
        own = None if now.own is None or before.own is None else now.own - before.own
        return OomKills(own, now.machine - before.machine)

    def _read(self) -> OomKills:
        return OomKills(_count(self._own) if self._own else None, _count(self._machine) or 0)


def _group_counter(pid: int, proc: Path, groups: Path) -> Path | None:
    """The file that counts for a process's control group what was killed in it, also where the whole machine had
    run out; version 2 has one file, version 1 another."""
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            inside = path.lstrip("/")
            if not controllers:
                counter = groups / inside / "memory.events"
            elif "memory" in controllers.split(","):
                counter = groups / "memory" / inside / "memory.oom_control"
            else:
                continue
            if _count(counter) is not None:
                return counter
    return None


def _count(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
