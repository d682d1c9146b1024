"""Counting the kernel's out-of-memory kills, in the worker's control group if the kernel counts them there."""

import contextlib
from pathlib import Path
from typing import NamedTuple

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class OomKills(NamedTuple):
    """`own` is the count of the worker's control group; None where the kernel keeps none."""

    own: int | None = None
    machine: int = 0


class OomCounter:
    """Counts the kills since it was made."""

    def __init__(self, pid: int, proc: Path = PROC, cgroups: Path = CGROUPS) -> None:
        self._machine = proc / "vmstat"
        # Looked up while the process lives: afterwards its control group is unknown.
        self._own = _cgroup_counter(pid, proc, cgroups)
        self._before = self._read()

    def kills(self) -> OomKills:
        now, before = self._read(), self._before
        own = None if now.own is None or before.own is None else now.own - before.own
        return OomKills(own, now.machine - before.machine)

    def _read(self) -> OomKills:
        return OomKills(_read_count(self._own) if self._own else None, _read_count(self._machine) or 0)


def _cgroup_counter(pid: int, proc: Path, cgroups: Path) -> Path | None:
    """The file in which the process's control group (version 2 or 1) counts its kills."""
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / str(pid) / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            group = path.lstrip("/")
            if not controllers:
                counter = cgroups / group / "memory.events"
            elif "memory" in controllers.split(","):
                counter = cgroups / "memory" / group / "memory.oom_control"
            else:
                continue
            if _read_count(counter) is not None:
                return counter
    return None


def _read_count(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
