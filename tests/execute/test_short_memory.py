"""A machine that runs out of memory: the worker is stopped first, and it is said how much of it the worker had."""

from types import SimpleNamespace

import psutil
import pytest

from tare.execute.launch import SpawnLauncher
from tare.execute.rounds import failure_of
from tare.execute.supervise import Supervision, supervise
from tare.protocol.jobs import ProbeJob


@pytest.mark.parametrize(("left", "stopped"), [(0.01, True), (0.5, False)])
def test_a_worker_is_stopped_where_others_hold_the_memory(
    monkeypatch: pytest.MonkeyPatch, left: float, stopped: bool
) -> None:
    machine = SimpleNamespace(available=int(left * 2**34), total=2**34)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    worker_exit = supervise(SpawnLauncher(("sleep", "3")).launch(ProbeJob()), Supervision(60.0))
    failure = failure_of(worker_exit, 60.0)
    assert failure is not None
    assert (failure.cause == "host-oom") == stopped
    if stopped:
        assert 0 < worker_exit.resident < 2**28
        assert (
            failure.message
            == f"stopped because host memory ran out; it held {worker_exit.resident / 2**20:.0f} MiB of it"
        )
    else:
        assert failure.cause == "no-result"
