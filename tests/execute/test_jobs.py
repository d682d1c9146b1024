"""Jobs other than rounds: profiling, counting, peaks. Real workers on the CPU."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import make_case

from tare.cases.options import Options
from tare.commands.traces import profile_case
from tare.errors import TareError
from tare.execute.executor import LocalExecutor
from tare.execute.launch import SpawnLauncher, make_launcher
from tare.protocol.jobs import CountJob, PeakJob, ProfileJob
from tare.protocol.messages import Capacity, Counted, Measured, Profiled
from tare.trace.memory import memory_use
from tare.trace.read import read
from tare.worker import profiling
from tare.worker.handlers import count_eager_step, peak

CASE = make_case(batch=4, sizes={"features": 16, "width": 32, "depth": 2, "classes": 10})


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
    messages = executor.request(job, Options(), "cpu")
    steps = next(m.steps for m in messages if isinstance(m, Profiled))
    plain, stacks = (read(path) for path in traces)
    assert len(plain.steps) == len(stacks.steps) == steps
    assert (plain.has_stacks, stacks.has_stacks) == (False, True)
    assert plain.metadata["tare_profiled"]["case"] == CASE.key
    use = memory_use(plain)
    assert use is not None
    # The garbage collector ran after the steps, and a network of layers leaves nothing for it.
    assert use.garbage == 0
    assert not [m for m in messages if isinstance(m, Counted)]
    assert sorted(path.name for path in tmp_path.glob("*trace*")) == []


def test_a_profiling_worker_counts_the_work_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    executor = LocalExecutor(SpawnLauncher(), tmp_path)
    profile = profile_case(executor, CASE, "one", stacks=False, count=True)
    assert profile.trace.exists()
    assert not profile.stacks.exists()
    assert profile.work == count_eager_step(CASE).work
    assert profile_case(executor, CASE, "one", stacks=False, again=False, count=True).work is None


def test_counting_is_the_same_for_every_rung() -> None:
    counts = [count_eager_step(make_case(rung=rung, batch=4, sizes=CASE.sizes)) for rung in ("eager", "compile")]
    assert all(isinstance(one, Counted) for one in counts)
    assert counts[0].work.flops == counts[1].work.flops == 2 * 4 * (16 * 32 + 32 * 32 + 32 * 10)


def test_a_peak_is_measured_by_the_sampler() -> None:
    sent: list[Any] = []
    peak(PeakJob(name="dispatch", device="cpu", budget_s=0.05, width=0.5), sent.append)
    assert [m.series.kind for m in sent if isinstance(m, Measured)] == ["warmup", "pipelined", "latency"]
    assert [m.amount for m in sent if isinstance(m, Capacity)] == [1.0]


def test_a_job_that_fails_says_where_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_HOME", str(tmp_path))
    executor = LocalExecutor(SpawnLauncher(), tmp_path)
    with pytest.raises(TareError, match=r"count failed: exception, .*no_such"):
        executor.request(CountJob(case=make_case(workload="no_such")), Options(), "cpu")


def test_the_host_time_of_a_step_excludes_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is handed over in a millisecond, or once in three, to a device that needs twenty."""
    now, taken = [0], iter((3, 1, 1, 1, 1))
    monkeypatch.setattr(profiling, "time", SimpleNamespace(perf_counter_ns=lambda: now[0]))

    def step() -> None:
        now[0] += next(taken) * 1_000_000

    def synchronize() -> None:
        now[0] += 20_000_000

    assert profiling.host_time(step, synchronize) == 1_000_000
