"""Net and tare of every rung on a GPU."""

import pytest
from builders import make_record
from proof import make

from tare.cases.case import Mode
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.records.figures import gross, net, tare
from tare.records.record import Round

OPTIONS = Options(rounds=1, budget=1.0, timeout=600, parity=False)
PROFILED = ["eager", "torchscript", "compile", "compile:reduce-overhead", "cudagraph", "aot", "libtorch"]
BOUNDED = ["vendor", "vendor:graph"]


def run(executor: LocalExecutor, rung: str, mode: Mode = "infer", batch: int = 8) -> Round:
    done = executor.run_round(make("resnet50", rung, mode, device="cuda", batch=batch), 0, OPTIONS, check=False)
    assert done.failure is None, done.failure
    assert done.net is not None
    assert done.net.reason == ""
    return done


@pytest.mark.parametrize("rung", [*PROFILED, *BOUNDED])
def test_every_rung_has_net_and_tare(executor: LocalExecutor, rung: str) -> None:
    done = run(executor, rung)
    record = make_record(rounds=[done])
    step, computing, stack = gross(record), net(record), tare(record)
    assert step is not None
    assert computing is not None
    assert stack is not None
    assert 0 < computing <= step.mid
    assert stack == pytest.approx(step.mid - computing)
    assert done.net is not None
    assert done.net.upper_bound == (rung in BOUNDED)


@pytest.mark.parametrize("rung", ["eager", "cudagraph", "libtorch", "vendor"])
def test_every_rung_has_net_in_training(executor: LocalExecutor, rung: str) -> None:
    assert net(make_record(rounds=[run(executor, rung, "train")]))


@pytest.mark.alone
def test_replaying_a_graph_removes_tare_and_not_net(executor: LocalExecutor) -> None:
    """Both run the same kernels; at batch 1 eager waits for its launches."""
    eager, graph = (make_record(rounds=[run(executor, rung, batch=1)]) for rung in ("eager", "cudagraph"))
    nets, tares = [net(record) for record in (eager, graph)], [tare(record) for record in (eager, graph)]
    assert nets[0] is not None
    assert tares[0] is not None
    assert nets[1] == pytest.approx(nets[0], rel=0.3)
    assert tares[1] is not None
    assert tares[1] < tares[0] / 2


def test_a_later_round_is_not_profiled(executor: LocalExecutor) -> None:
    case = make("mnist_cnn", "eager", "infer", device="cuda", batch=8)
    assert executor.run_round(case, 1, OPTIONS, check=False).net is None
