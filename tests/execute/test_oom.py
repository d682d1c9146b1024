"""Whose memory ran out: counters of control groups, written by hand and, where one can be made, the kernel's."""

import os
import sys
from pathlib import Path

import pytest
from children import finish, start

from tare.execute.oom import OomCounter, OomKills

PID = 77
# What /proc says of a process, and the file that counts for it: version 2; version 1 beside an empty version 2.
LAYOUTS = {
    "two": ("0::/user/session\n", "user/session/memory.events", "low 0\noom 3\noom_kill {}\noom_group_kill 9\n"),
    "one": (
        "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n",
        "memory/box/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
    ),
}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_group_s_own_count_is_told_from_the_machine_s(tmp_path: Path, layout: str) -> None:
    groups, name, text = LAYOUTS[layout]
    membership = write(tmp_path / "proc" / str(PID) / "cgroup", groups)
    write(tmp_path / "proc" / "vmstat", "pgfault 1\noom_kill 5\n")
    counter = write(tmp_path / "groups" / name, text.format(2))
    watch = OomCounter(PID, tmp_path / "proc", tmp_path / "groups")
    assert watch.kills() == OomKills(0, 0)
    write(tmp_path / "proc" / "vmstat", "pgfault 1\noom_kill 6\n")
    assert watch.kills() == OomKills(0, 1), "somebody else's"
    # The process has ended by the time it is asked.
    membership.unlink()
    counter.write_text(text.format(3))
    assert watch.kills() == OomKills(1, 1)


def test_where_no_group_counts_only_the_machine_s_is_known(tmp_path: Path) -> None:
    write(tmp_path / "vmstat", "oom_kill 5\n")
    watch = OomCounter(PID, tmp_path, tmp_path)
    write(tmp_path / "vmstat", "oom_kill 6\n")
    assert watch.kills() == OomKills(None, 1)
    assert OomCounter(PID, tmp_path / "none", tmp_path / "none").kills() == OomKills(None, 0)


HOG = """
import os, sys
from pathlib import Path
from tare.execute.launch import SpawnLauncher
from tare.protocol.jobs import ProbeJob
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, supervise
(Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
hog = "import os; open('/proc/self/oom_score_adj', 'w').write('1000'); held = bytearray(os.urandom(1 << 20)) * 600"
ending = supervise(SpawnLauncher((sys.executable, "-c", hog)).launch(ProbeJob()), Supervision(120))
print(ending.oom_kills.own, failure_of(ending, 120).message)
"""


def small_group() -> Path | None:
    """A control group with 300 MiB, where one can be made here."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup") / ("memory" if controllers else "")
        group = root / path.lstrip("/") / f"tare-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / ("memory.limit_in_bytes" if controllers else "memory.max")).write_text(str(300 * 2**20))
            return group
        except OSError:
            group.rmdir()
    return None


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_a_worker_that_the_kernel_kills_for_memory_is_known_by_its_group() -> None:
    group = small_group()
    if group is None:
        pytest.skip("no control group can be made here")
    try:
        status, output = finish(start(HOG, group))
    finally:
        group.rmdir()
    assert status == 0, output
    assert output == "1 the kernel killed the worker because host memory ran out\n"
