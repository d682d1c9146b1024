"""Stacks to cuDNN and cuBLAS on the stock CUDA wheel: the legacy call, the backend's, graphs, and native rungs."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from counter import StackCounter, stack_of
from proof import make

from tare.cases.case import Case


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackCounter]:
    with closing(StackCounter(tmp_path_factory.mktemp("counter"))) as made:
        made.executor.probe()
        yield made


def case(workload: str, rung: str, **fields: object) -> Case:
    return make(workload, rung, "infer", device="cuda", **fields)  # type: ignore[arg-type]


# The legacy call, or the backend's: torch decides by version, shape and TORCH_CUDNN_V8_API_DISABLED.
CONVOLUTIONS = ("cudnnConvolutionForward", "cudnnConvolutionBiasActivationForward", "cudnnBackendExecute")


@pytest.mark.parametrize("rung", ["eager", "torchscript", "libtorch", "libtorch:script"])
def test_the_stack_leads_to_cudnn(counter: StackCounter, rung: str) -> None:
    depth = counter.depth(case("resnet50", rung))
    stack = stack_of(depth)
    assert stack.entry in CONVOLUTIONS
    assert depth.calls >= 53
    assert any("at::_ops" in f.name or "at::native" in f.name for f in stack.native)
    in_python = rung in ("eager", "torchscript")
    assert bool(stack.python) == in_python
    assert bool(stack.count("interpreter")) == in_python


def test_both_ways_into_cudnn_are_watched(counter: StackCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for disabled in ("0", "1"):
        monkeypatch.setenv("TORCH_CUDNN_V8_API_DISABLED", disabled)
        # The batch tells the two apart, so that each has a folder of its own.
        made = case("mnist_cnn", "eager", batch=4 + int(disabled))
        found.add(counter.stack(made).entry)
    assert found <= set(CONVOLUTIONS)
    assert "cudnnBackendExecute" not in {counter.stack(made).entry}


def test_a_matrix_product_leads_to_cublas(counter: StackCounter) -> None:
    stack = counter.stack(case("mlp", "eager"))
    assert stack.kind == "product"
    assert stack.entry.startswith("cublas")


def test_a_graph_is_launched_from_few_frames(counter: StackCounter) -> None:
    graph = counter.stack(case("mnist_cnn", "cudagraph"))
    eager = counter.stack(case("mnist_cnn", "eager"))
    assert graph.entry == "cudaGraphLaunch"
    assert graph.total < eager.total


@pytest.mark.parametrize(("rung", "entries"), [("vendor", CONVOLUTIONS), ("vendor:graph", ("cudaGraphLaunch",))])
def test_the_lowest_rung_calls_the_library_from_its_own_step(
    counter: StackCounter, rung: str, entries: tuple[str, ...]
) -> None:
    stack = counter.stack(case("resnet50", rung))
    assert stack.entry in entries
    assert not stack.python
    assert stack.total <= 8


def test_a_recurrent_network_leads_to_cudnn(counter: StackCounter) -> None:
    stack = counter.stack(case("lstm", "eager"))
    assert stack.entry == "cudnnRNNForward"
