"""A parent that could not look for a while: what its worker did meanwhile counts, and the time does not."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from children import finish, start
from commandline import wait_until

pytestmark = pytest.mark.alone

TIMEOUT_S = 3.0
WATCH = f"""
import sys
from tare.protocol.jobs import ProbeJob
from tare.execute.launch import SpawnLauncher
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, supervise
told = []
def tell():
    if not told:
        told.append(print("watching", flush=True))
process = SpawnLauncher(("sh", "-c", sys.argv[1])).launch(ProbeJob())
failure = failure_of(supervise(process, Supervision({TIMEOUT_S}, on_tick=tell)), {TIMEOUT_S})
print(failure and failure.cause)
"""
WORKER = """
while [ ! -e {folder}/go ]; do sleep 0.02; done
{talk}
echo '{{"kind":"done"}}' >&$TARE_FD
touch {folder}/done
{after}
"""
# More than a pipe holds: the worker waits for a reader before it can say that it is done.
LONG = """touch {folder}/done; yes '{{"kind":"stage","name":"sample"}}' | head -n 20000 >&$TARE_FD"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts on the pipes of Linux")
@pytest.mark.parametrize(
    ("talk", "after"), [("", ""), ("", "sleep 3600"), (LONG, "")], ids=["ends", "stays", "waits"]
)
def test_a_parent_that_was_stopped_calls_no_complete_worker_a_timeout(
    tmp_path: Path, talk: str, after: str
) -> None:
    worker = WORKER.format(folder=tmp_path, talk=talk.format(folder=tmp_path), after=after)
    parent = start(WATCH, worker)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "watching\n"
    os.kill(parent.pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    wait_until((tmp_path / "done").exists)
    time.sleep(TIMEOUT_S + 0.5)
    os.kill(parent.pid, signal.SIGCONT)
    assert finish(parent) == (0, "None\n")
