"""Time and memory by module: hand-made traces with known figures, and the recorded ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from traces import RECORDED, TraceBuilder

from tare.trace.host_time import host_time
from tare.trace.kernel_table import kernel_table
from tare.trace.memory import memory_use
from tare.trace.module_tree import DEEPEST, ModuleFigures, ModuleNode, module_tree
from tare.trace.read import read
from tare.trace.tables import Trace

ENGINE = 200


def tree_of(trace: TraceBuilder | Trace) -> ModuleNode:
    tree = module_tree(trace.build() if isinstance(trace, TraceBuilder) else trace)
    assert tree is not None
    return tree


def at(tree: ModuleNode, *path: str) -> ModuleNode:
    for name in path:
        (tree,) = (child for child in tree.children if child.name == name)
    return tree


def forward(trace: TraceBuilder, start: float) -> None:
    """100 us in a model: a Linear that computes 7 us, and another one within a block that computes 11 us. The
    model itself launches 2 us."""
    trace.frame("nn.Module: Model_0", start, start + 100)
    trace.frame("torch/nn/modules/linear.py(134): forward", start + 1, start + 95)
    trace.frame("nn.Module: Linear_0", start + 5, start + 25)
    trace.op("aten::linear", start + 10, start + 20, **{"Sequence number": 1})
    trace.launch(start + 12, start + 15, start + 20, start + 27)
    trace.frame("nn.Module: Block_0", start + 30, start + 80)
    trace.frame("nn.Module: Linear_1", start + 40, start + 70)
    trace.op("aten::linear", start + 45, start + 60, **{"Sequence number": 2})
    trace.launch(start + 50, start + 55, start + 60, start + 71)
    trace.op("aten::add", start + 85, start + 95)
    trace.launch(start + 88, start + 90, start + 92, start + 94)


def training(backward_thread: int) -> TraceBuilder:
    """Two steps of 200 us; the backward pass computes 13 us for Linear_1 and 5 us for nobody's gradient."""
    trace = TraceBuilder()
    for start in (0, 200):
        trace.step(start, start + 200)
        forward(trace, start + 10)
        trace.frame("torch/_tensor.py(570): backward", start + 115, start + 180)
        engine = "autograd::engine::evaluate_function: AddmmBackward0"
        arguments = {"Sequence number": 2, "Fwd thread id": 1}
        trace.op(engine, start + 120, start + 150, thread=backward_thread, **arguments)
        trace.op("AddmmBackward0", start + 122, start + 148, thread=backward_thread, **arguments)
        trace.launch(start + 130, start + 135, start + 140, start + 153, thread=backward_thread)
        trace.op("torch::autograd::AccumulateGrad", start + 155, start + 165, thread=backward_thread)
        trace.launch(start + 156, start + 160, start + 165, start + 170, thread=backward_thread)
    return trace


@pytest.mark.parametrize("thread", [100, ENGINE])
def test_the_tree_of_a_training_step(thread: int) -> None:
    """On a CPU autograd runs on the thread of the program, on a device on one of its own."""
    tree = tree_of(training(thread))
    assert (tree.name, tree.calls, [child.name for child in tree.children]) == ("", 2, ["Model_0"])
    model = at(tree, "Model_0")
    assert [child.name for child in model.children] == ["Linear_0", "Block_0"]
    times = {
        (): (2 * 200, 2 * 38, 2 * 5),
        ("Model_0",): (2 * 130, 2 * 33, 2 * 4),
        ("Model_0", "Linear_0"): (2 * 20, 2 * 7, 2),
        ("Model_0", "Block_0"): (2 * 80, 2 * 24, 2 * 2),
        # 30 us of its forward and 30 us of its backward.
        ("Model_0", "Block_0", "Linear_1"): (2 * 60, 2 * 24, 2 * 2),
    }
    for path, (host, device, launches) in times.items():
        total = at(tree, *path).total
        assert (total.host, total.device, total.launches) == (host * 1000, device * 1000, launches), path
    own = at(tree, "Model_0").own
    assert (own.host, own.device, own.launches) == (2 * 30_000, 2 * 2_000, 2)
    assert tree.own.device == 2 * 5_000
    assert at(tree, "Model_0", "Block_0").own.device == 0


def test_what_is_outside_of_the_steps_does_not_count() -> None:
    trace = TraceBuilder()
    forward(trace, 0)
    trace.step(200, 400)
    forward(trace, 250)
    trace.kernel("orphan", 380, 384, correlation=900)
    tree = tree_of(trace)
    assert (tree.total.host, tree.total.device, tree.total.launches) == (200_000, 24_000, 3)
    assert (tree.own.device, at(tree, "Model_0").calls) == (4_000, 1)


def test_a_recomputed_module_is_the_one_that_is_recomputed() -> None:
    """Activation checkpointing calls the modules again from the backward pass."""
    trace = TraceBuilder()
    trace.step(0, 200)
    trace.frame("nn.Module: Model_0", 10, 60)
    trace.op("CheckpointFunction", 20, 50, **{"Sequence number": 3})
    trace.frame("nn.Module: Linear_0", 25, 45)
    trace.op("aten::linear", 30, 40)
    trace.launch(32, 35, 40, 50)
    trace.op("CheckpointFunctionBackward", 100, 150, thread=ENGINE, **{"Sequence number": 3, "Fwd thread id": 1})
    trace.frame("nn.Module: Linear_0", 105, 125, thread=ENGINE)
    trace.op("aten::linear", 110, 120, thread=ENGINE)
    trace.launch(112, 115, 120, 130, thread=ENGINE)
    # The backward pass of what was computed again.
    again = {"Sequence number": 9}
    trace.op("aten::addmm", 111, 119, thread=ENGINE, **again)
    trace.op("AddmmBackward0", 130, 145, thread=ENGINE, **again, **{"Fwd thread id": 2})
    trace.launch(132, 135, 140, 144, thread=ENGINE)
    tree = tree_of(trace)
    assert [child.name for child in tree.children] == ["Model_0"]
    linear = at(tree, "Model_0", "Linear_0")
    assert (linear.calls, linear.total.device, linear.total.host) == (2, 24_000, 55_000)


def test_memory_by_module() -> None:
    """1000 bytes are there before. Linear_1 holds 300 at the peak and keeps 100 of them."""
    trace = TraceBuilder()
    trace.step(0, 200)
    forward(trace, 10)
    trace.memory(22, 500, 0xA0, 1500)
    trace.memory(24, -500, 0xA0, 1000)
    trace.memory(56, 100, 0xB0, 1100)
    trace.memory(57, 200, 0xC0, 1300)
    trace.memory(97, 400, 0xD0, 1700)
    trace.memory(150, -200, 0xC0, 1500)
    trace.memory(160, -400, 0xD0, 1100)
    tree = tree_of(trace)
    figures = {
        (): (1700, 100),
        ("Model_0",): (700, 100),
        ("Model_0", "Linear_0"): (0, 0),
        ("Model_0", "Block_0", "Linear_1"): (300, 100),
    }
    for path, (peak, kept) in figures.items():
        total = at(tree, *path).total
        assert (total.peak_bytes, total.kept_bytes) == (peak, kept), path
    assert tree.own.peak_bytes == 1000


def test_a_trace_without_modules_has_no_tree() -> None:
    trace = TraceBuilder()
    trace.step(0, 100)
    trace.frame("train.py(3): step", 0, 100)
    assert module_tree(trace.build()) is None


def test_modules_of_any_depth_are_bounded() -> None:
    trace = TraceBuilder()
    trace.step(0, 1000)
    for depth in range(3 * DEEPEST):
        trace.frame(f"nn.Module: Layer_{depth}", depth, 1000 - depth)
    trace.launch(400, 410, 420, 430)
    tree = tree_of(trace)
    deepest = list(walk(tree))[-1]
    assert (deepest.own.device, deepest.name) == (10_000, f"Layer_{DEEPEST - 1}")


def walk(tree: ModuleNode) -> Iterator[ModuleNode]:
    yield tree
    for child in tree.children:
        yield from walk(child)


def values(figures: ModuleFigures) -> list[int]:
    return [getattr(figures, name) for name in ModuleFigures.__struct_fields__]


WITH_MODULES = sorted(RECORDED.glob("*-stack.json.gz"))


@pytest.mark.parametrize("path", WITH_MODULES, ids=lambda path: path.name[:-8])
def test_own_figures_and_those_of_the_children_add_up(path: Path) -> None:
    trace = read(path)
    tree = module_tree(trace)
    if tree is None:
        return
    for node in walk(tree):
        parts = [values(node.own), *(values(child.total) for child in node.children)]
        assert values(node.total) == [sum(column) for column in zip(*parts, strict=True)]
        assert min(values(node.own)) >= 0
    time, use = host_time(trace), memory_use(trace)
    assert time is not None
    assert use is not None
    assert tree.total.host == time.window
    assert tree.total.device == sum(kernel.total for kernel in kernel_table(trace, counted=True))
    assert tree.total.peak_bytes == use.peak_bytes


def test_the_modules_of_a_recorded_network() -> None:
    tree = tree_of(read(RECORDED / "resnet50-infer-b1-eager-stack.json.gz"))
    network = at(tree, "ResNet_0")
    stages = [child for child in network.children if child.name.startswith("Sequential")]
    assert [len(stage.children) for stage in stages] == [3, 4, 6, 3]
    assert network.total.device > 0.95 * tree.total.device
    assert network.total.launches == tree.total.launches == 280


@pytest.mark.full
@pytest.mark.parametrize("checkpointing", [None, "reentrant", "from hooks"])
def test_the_modules_of_a_network_trained_on_a_cpu(tmp_path: Path, checkpointing: str | None) -> None:
    """Whether or not activations are computed again, all of a module's work is its own."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
    from torch.utils.checkpoint import checkpoint

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(self.up(x).relu())

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                reentrant = checkpointing == "reentrant"
                x = checkpoint(block, x, use_reentrant=reentrant) if checkpointing else block(x)
            return x

    path, net = tmp_path / "trace.json", Net()
    with profile(
        activities=[ProfilerActivity.CPU],
        with_stack=True,
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(3):
            net(torch.randn(32, 64, requires_grad=True)).square().mean().backward()
            profiler.step()
    tree = tree_of(read(path))
    (network,) = tree.children
    assert network.name.startswith("Net_")
    assert [child.name.partition("_")[0] for child in network.children] == ["Block"] * 3
    for block in network.children:
        assert [child.name.partition("_")[0] for child in block.children] == ["Linear"] * 2
        assert all(not child.children for child in block.children)
        assert block.calls == (4 if checkpointing else 2)
    assert network.total.host > 0.3 * tree.total.host
