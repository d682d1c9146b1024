"""Stacks to cuDNN and cuBLAS on the stock CUDA wheel: the legacy call, the backend's, graphs, and native rungs."""

from collections.abc import Iterator

import pytest
from counter import build_counter
from proof import make

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.errand import ErrandExecutor
from tare.execute.executor import make_launcher
from tare.frames.count import Depth, count_depth
from tare.frames.stack import Stack

OPTIONS = Options(rounds=1, timeout=600)


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_counter(tmp_path_factory.mktemp("counter")))


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ErrandExecutor]:
    made = ErrandExecutor(make_launcher("spawn"), tmp_path_factory.mktemp("scratch"))
    made.probe()
    yield made
    made.close()


def stack_of(depth: Depth) -> Stack:
    assert depth.failure is None, depth.failure
    assert depth.stack is not None, depth.blind
    return depth.stack


def case(workload: str, rung: str, **fields: object) -> Case:
    return make(workload, rung, "infer", device="cuda", **fields)  # type: ignore[arg-type]


# The legacy call, or the backend's: torch decides by version, shape and TORCH_CUDNN_V8_API_DISABLED.
CONVOLUTIONS = ("cudnnConvolutionForward", "cudnnConvolutionBiasActivationForward", "cudnnBackendExecute")


@pytest.mark.parametrize("rung", ["eager", "torchscript", "libtorch", "libtorch:script"])
def test_the_stack_leads_to_cudnn(executor: ErrandExecutor, counter: str, rung: str) -> None:
    depth = count_depth(executor, case("resnet50", rung), counter, OPTIONS)
    stack = stack_of(depth)
    assert stack.entry in CONVOLUTIONS
    assert depth.calls >= 53
    assert any("at::_ops" in f.name or "at::native" in f.name for f in stack.native)
    in_python = rung in ("eager", "torchscript")
    assert bool(stack.python) == in_python
    assert bool(stack.count("interpreter")) == in_python


def test_both_ways_into_cudnn_are_watched(
    executor: ErrandExecutor, counter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for disabled in ("0", "1"):
        monkeypatch.setenv("TORCH_CUDNN_V8_API_DISABLED", disabled)
        # The batch tells the two apart, so that each has a folder of its own.
        made = case("mnist_cnn", "eager", batch=4 + int(disabled))
        found.add(stack_of(count_depth(executor, made, counter, OPTIONS)).entry)
    assert found <= set(CONVOLUTIONS)
    assert "cudnnBackendExecute" not in {stack_of(count_depth(executor, made, counter, OPTIONS)).entry}


def test_a_matrix_product_leads_to_cublas(executor: ErrandExecutor, counter: str) -> None:
    stack = stack_of(count_depth(executor, case("mlp", "eager"), counter, OPTIONS))
    assert stack.kind == "product"
    assert stack.entry.startswith("cublas")


def test_a_graph_is_launched_from_few_frames(executor: ErrandExecutor, counter: str) -> None:
    graph = stack_of(count_depth(executor, case("mnist_cnn", "cudagraph"), counter, OPTIONS))
    eager = stack_of(count_depth(executor, case("mnist_cnn", "eager"), counter, OPTIONS))
    assert graph.entry == "cudaGraphLaunch"
    assert graph.total < eager.total


def test_a_recurrent_network_leads_to_cudnn(executor: ErrandExecutor, counter: str) -> None:
    stack = stack_of(count_depth(executor, case("lstm", "eager"), counter, OPTIONS))
    assert stack.entry == "cudnnRNNForward"
