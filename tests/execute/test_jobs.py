"""Jobs other than rounds: profiling, counting, peaks. Real workers on the CPU."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import make_case

from tare.cases.options import Options
from tare.commands.traces import profile_case
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import SpawnLauncher, make_launcher
from tare.protocol.jobs import PeakJob, ProfileJob
from tare.protocol.messages import Profiled
from tare.trace.memory import memory_use
from tare.trace.metadata import recording_info
from tare.trace.read import read
from tare.worker import profiling
from tare.worker.machine import measure_peak
from tare.worker.profiling import FEWEST_STEPS

CASE = make_case(batch=4, sizes={"features": 16, "width": 32, "depth": 2, "classes": 10})


def ignore(_: object) -> None:
    """Takes the messages of a handler."""


@pytest.mark.parametrize("isolation", [pytest.param("spawn", marks=pytest.mark.full), "fork"])
def test_a_profiling_worker_leaves_two_traces(
    isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    with closing(LocalExecutor(make_launcher(isolation), tmp_path)) as executor:
        leaves_two_traces(executor, tmp_path)


def leaves_two_traces(executor: LocalExecutor, tmp_path: Path) -> None:
    traces = [tmp_path / "plain.json.gz", tmp_path / "stacks.json.gz"]
    job = ProfileJob(case=CASE, trace=str(traces[0]), stacks=str(traces[1]))
    executor.request(job, Profiled, Options())
    plain, stacks = (read(path) for path in traces)
    assert len(plain.steps) == len(stacks.steps) >= FEWEST_STEPS
    assert (plain.has_stacks, stacks.has_stacks) == (False, True)
    assert plain.metadata["tare_profiled"]["case"] == CASE.key
    use = memory_use(plain)
    assert use is not None
    # The garbage collector ran after the steps, and a network of layers leaves nothing for it.
    assert use.garbage == 0
    assert sorted(path.name for path in tmp_path.glob("*trace*")) == []


@pytest.mark.full
def test_a_profiling_worker_counts_the_work_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    executor = LocalExecutor(SpawnLauncher(), tmp_path)
    plain, stacks = profile_case(executor, CASE, "one", stacks=False, count=True)
    assert not stacks.exists()
    info = recording_info(read(plain))
    assert info is not None
    counted = profiling.profile(ProfileJob(case=CASE, count=True), ignore)
    assert info.work == counted.work
    assert info.work is not None
    assert info.work.flops == 2 * 4 * (16 * 32 + 32 * 32 + 32 * 10)


def test_a_peak_is_measured_by_the_sampler() -> None:
    peak = measure_peak(PeakJob(name="dispatch", device="cpu", budget_s=0.05, width=0.5), ignore)
    assert 1e-9 < peak.value < 1, "seconds of one tiny operator"


def test_a_job_that_fails_says_where_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    executor = LocalExecutor(SpawnLauncher(), tmp_path)
    with pytest.raises(TareError, match=r"build failed: exception, .*no_such"):
        executor.request(ProfileJob(case=make_case(workload="no_such"), count=True), Profiled, Options())


def test_the_host_time_of_a_step_excludes_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is handed over in a millisecond, or once in three, to a device that needs twenty."""
    now, taken = [0], iter((3, 1, 1, 1, 1))
    monkeypatch.setattr(profiling, "time", SimpleNamespace(perf_counter_ns=lambda: now[0]))

    def step() -> None:
        now[0] += next(taken) * 1_000_000

    def synchronize() -> None:
        now[0] += 20_000_000

    assert profiling.host_time(step, synchronize) == 1_000_000
