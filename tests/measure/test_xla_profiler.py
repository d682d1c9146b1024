"""Net from a profile of XLA: known answers from generated profiles, and the steps that are taken for one."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from traces import TraceBuilder
from xspaces import PlaneWriter, Recorded, write_xspace, xspace

from tare.measure.xla_profiler import XlaProfiler, profile_xla_steps, step_profile
from tare.system.xspace import XSpace

US = 1_000_000


def program(steps: int = 3) -> TraceBuilder:
    """In each step of 100 us: a copy to the device of 30, kernels on two streams that cover 35, a memset of 5."""
    trace = TraceBuilder()
    for number in range(steps):
        at = 100 * number
        trace.step(at, at + 100, number)
        trace.copy("HtoD (Pinned -> Device)", at + 5, at + 35, trace.call("cudaMemcpyAsync", at, at + 2), 64)
        trace.memset(at + 35, at + 40, trace.call("cudaMemsetAsync", at + 2, at + 3))
        trace.launch(at + 3, at + 5, at + 40, at + 60, "gemm")
        trace.launch(at + 6, at + 8, at + 50, at + 70, "add", stream=9)
        trace.launch(at + 8, at + 9, at + 80, at + 85, "add")
    return trace


def test_net_on_a_device_is_the_union_of_its_kernels_without_the_first_step(tmp_path: Path) -> None:
    profile = step_profile(XSpace(write_xspace(program(), tmp_path / "p.xplane.pb")).planes, on_device=True)
    assert (profile.net.steps, profile.net.method, profile.net.reason) == (2, "union of kernels", "")
    assert profile.net.busy_s == pytest.approx((5 + 30 + 5) * 1e-6)
    assert profile.kernels == {"gemm": 1, "add": 2}


def test_graphs_that_are_recorded_as_a_whole_make_net_an_upper_bound(tmp_path: Path) -> None:
    trace = program()
    trace.launch(290, 292, 294, 298, "CudaGraphExec:2")
    profile = step_profile(XSpace(write_xspace(trace, tmp_path / "p.xplane.pb")).planes, on_device=True)
    assert profile.net.upper_bound
    assert profile.net.busy_s == pytest.approx((40 + 4 / 2) * 1e-6)
    assert "gaps" in profile.net.method


def host(*lines: list[Recorded]) -> list[Any]:
    plane = PlaneWriter("/host:CPU")
    for number, events in enumerate(lines):
        plane.line(number, f"thread {number}", events)
    return [plane]


def marked(number: int, start: int, length: int) -> Recorded:
    return Recorded("tare", start * US, length * US, {"step_num": number, "_r": 1})


def operator(start: int, length: int, name: str = "dot.1") -> Recorded:
    return Recorded(name, start * US, length * US, {"hlo_op": name, "hlo_module": "jit_step"})


def test_net_on_the_cpu_is_the_share_of_a_step_in_which_any_thread_computes(tmp_path: Path) -> None:
    """The first step does not count. In the others operators take 50, 30 and 70 of 100 us: 20 us of them on two
    threads at once, one begins before its step, and the runtime's own events are none."""
    marks = [marked(number, 100 * number, 100) for number in range(4)]
    runtime = Recorded("ThunkExecutor::Execute", 100 * US, 300 * US)
    pool = [operator(0, 90), operator(110, 40), operator(195, 25), operator(300, 70, "loop"), operator(310, 20)]
    other = [operator(130, 25), Recorded("dense:MatMul", 220 * US, 10 * US)]
    path = tmp_path / "p.xplane.pb"
    path.write_bytes(xspace(host([*marks, runtime], pool, other)))
    net = step_profile(XSpace(path).planes, on_device=False).net
    # 110 to 155, and 195 to 200; 200 to 230; 300 to 370.
    assert net.share == pytest.approx(0.5)
    assert (net.steps, net.busy_s, net.method) == (3, None, "share of operators that compute")


@pytest.mark.parametrize(
    ("lines", "on_device", "reason"),
    [
        ([[]], False, "no step"),
        ([[marked(0, 0, 10)]], False, "no step"),
        ([[marked(0, 0, 10), marked(1, 10, 10)], [operator(0, 5)]], False, "no operator"),
        ([[marked(0, 0, 10), marked(1, 10, 10)], [operator(12, 5)]], True, "no kernel"),
    ],
)
def test_a_profile_that_tells_nothing_has_a_reason(
    tmp_path: Path, lines: list[list[Recorded]], on_device: bool, reason: str
) -> None:
    path = tmp_path / "p.xplane.pb"
    path.write_bytes(xspace(host(*lines)))
    net = step_profile(XSpace(path).planes, on_device).net
    assert net.busy_s is net.share is None
    assert reason in net.reason


def test_steps_are_marked_and_waited_for_and_the_profiler_stops_where_one_fails() -> None:
    done: list[Any] = []

    def mark(number: int) -> Any:
        done.append(number)
        return nullcontext()

    def start(folder: str) -> None:
        run = Path(folder, "plugins", "profile", "now")
        run.mkdir(parents=True)
        write_xspace(program(4), run / "host.xplane.pb")

    profiler = XlaProfiler(start, lambda: done.append("stopped"), mark)
    profile = profile_xla_steps(lambda: done.append("step"), lambda: done.append("wait"), profiler, "cuda", 0.05)
    assert done == [entry for number in range(4) for entry in (number, "step", "wait")] + ["stopped"]
    assert profile.net.steps == 3
    with pytest.raises(ZeroDivisionError):
        profile_xla_steps(lambda: 1 / 0, lambda: None, profiler, "cuda", 0.05)
    assert done[-1] == "stopped"
    silent = XlaProfiler(lambda _: None, lambda: None, lambda _: nullcontext())
    assert "no profile" in profile_xla_steps(lambda: None, lambda: None, silent, "cpu", 2.0).net.reason
