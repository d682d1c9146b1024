"""Where device memory went: known blocks by hand, and the recorded programs."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import RECORDED, TraceBuilder

from tare.trace.memory import HOST, memory_use
from tare.trace.names import COLLECTION
from tare.trace.read import read


def training() -> TraceBuilder:
    """1000 bytes held before; an activation, a workspace, a gradient, a temporary, optimizer state."""
    trace = TraceBuilder()
    trace.step(0, 1000)
    trace.frame("nn.Module: Linear_0", 10, 90)
    trace.op("aten::linear", 20, 80)
    trace.memory(30, 400, 0xA0, 1400)
    trace.memory(40, 50, 0xB0, 1450)
    trace.memory(50, -50, 0xB0, 1400)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 200, 400)
    trace.op("AddmmBackward0", 210, 390)
    trace.memory(220, 300, 0xC0, 1700)
    trace.memory(230, 70, 0xD0, 1770)
    trace.memory(395, -400, 0xA0, 1370)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 400, 450)
    trace.memory(420, -70, 0xD0, 1300)
    trace.annotation("Optimizer.step#SGD.step", 500, 700)
    trace.memory(550, 300, 0xE0, 1600)
    return trace


def test_the_kind_of_a_block_follows_from_its_lifetime() -> None:
    use = memory_use(training().build())
    assert use is not None
    assert (use.start_bytes, use.peak_bytes, use.end_bytes) == (1000, 1770, 1600)
    assert use.peak_at == 230_000
    assert use.by_kind == {
        "resident": 1000, "weights": 0, "optimizer state": 0, "gradients": 300,
        "activations": 400, "workspace": 0, "temporary": 70,
    }  # fmt: skip
    assert {(owner.where, owner.kind, owner.bytes) for owner in use.owners} == {
        ("before the trace began", "resident", 1000),
        ("Linear_0", "activations", 400),
        ("AddmmBackward0", "gradients", 300),
        ("AddmmBackward0", "temporary", 70),
    }
    assert {(owner.kind, owner.bytes) for owner in use.unreleased} == {
        ("gradients", 300),
        ("optimizer state", 300),
    }


def test_recorded_weights_and_optimizer_state_divide_resident_memory() -> None:
    trace = training()
    trace.metadata["tare_profiled"] = {"resident": {"weights": 600, "optimizer state": 300, "odd": "x"}}
    use = memory_use(trace.build())
    assert use is not None
    assert (use.by_kind["weights"], use.by_kind["optimizer state"], use.by_kind["resident"]) == (600, 300, 100)
    assert sum(use.by_kind.values()) == use.peak_bytes


@pytest.mark.parametrize(
    "marks", ["x", {"resident": 5}, {"resident": {"weights": -1}}, {"resident": {"weights": 1e9}}]
)
def test_malformed_recorded_sizes_are_ignored(marks: Any) -> None:
    trace = training()
    trace.metadata["tare_profiled"] = marks
    use = memory_use(trace.build())
    assert use is not None
    assert use.by_kind["resident"] == 1000


def test_with_stacks_gradients_belong_to_their_module() -> None:
    use = memory_use(read(Path(__file__).parent / "recorded" / "mlp-train-eager-stack.json.gz"))
    assert use is not None
    owners = {owner.where for owner in use.owners if owner.kind == "gradients"}
    assert {"Linear_0", "Linear_6"} <= owners or {"Linear_1", "Linear_5"} <= owners, owners


def test_a_backward_pass_on_the_stepping_thread_belongs_to_the_module() -> None:
    """On a CPU autograd runs where backward() was called: within a frame of its own, and in no module."""
    trace = TraceBuilder()
    trace.step(0, 100)
    trace.frame("nn.Module: Linear_0", 5, 20)
    trace.op("aten::linear", 8, 18, **{"Sequence number": 7})
    trace.frame("torch/_tensor.py(570): backward", 30, 90)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 40, 80)
    trace.op("AddmmBackward0", 45, 75, **{"Sequence number": 7, "Fwd thread id": 1})
    trace.memory(50, 300, 0xA0, 300, cuda=False)
    use = memory_use(trace.build())
    assert use is not None
    assert [(owner.where, owner.kind) for owner in use.owners] == [("Linear_0", "gradients")]


def test_growth_is_the_slope_over_the_steps() -> None:
    trace = TraceBuilder()
    for i in range(8):
        trace.step(i * 100, (i + 1) * 100)
        trace.memory(i * 100 + 10, 512, 1000 + i, 5000 + 512 * (i + 1))
    use = memory_use(trace.build())
    assert use is not None
    assert use.growth is not None
    assert (use.growth.low, use.growth.mid, use.growth.high) == (512, 512, 512)
    assert use.growth.sound
    assert use.garbage is None


def test_garbage_is_what_the_garbage_collector_released() -> None:
    trace = TraceBuilder()
    for i in range(4):
        trace.step(i * 100, (i + 1) * 100)
        trace.memory(i * 100 + 10, 512, 1000 + i, 5000 + 512 * (i + 1))
    trace.annotation(COLLECTION, 410, 430)
    trace.memory(415, -512, 1000, 5000 + 512 * 3)
    trace.memory(420, -512, 1001, 5000 + 512 * 2)
    # The profiler's own, later.
    trace.memory(440, -512, 1002, 5000 + 512)
    use = memory_use(trace.build())
    assert use is not None
    assert use.garbage == 2 * 512
    assert use.after_step == [5512, 6024, 6536, 7048]


def test_a_trace_without_memory_events_has_no_memory_use() -> None:
    trace = TraceBuilder()
    trace.step(0, 10)
    assert memory_use(trace.build()) is None
    trace.launch(1, 2, 3, 4)
    trace.memory(5, 64, 1, 64, cuda=False)
    # What a program on a device allocates on its host is not what is asked for.
    assert memory_use(trace.build()) is None


def on_the_host(**resident: Any) -> TraceBuilder:
    """A block of 300 bytes from before is released, one of 500 is held and one of 200 for a moment. The totals of
    the allocator go on from an earlier recording."""
    trace = TraceBuilder(tare_profiled={"resident": resident})
    trace.step(0, 100)
    trace.op("aten::linear", 10, 60)
    trace.memory(20, 500, 0xA0, 777_500, cuda=False)
    trace.op("aten::addmm", 25, 45)
    trace.memory(30, 200, 0xB0, 777_700, cuda=False)
    trace.memory(40, -200, 0xB0, 777_500, cuda=False)
    trace.memory(50, -300, 0xC0, 777_200, cuda=False)
    return trace


def test_host_memory_is_summed_event_by_event() -> None:
    use = memory_use(on_the_host().build())
    assert use is not None
    assert (use.device, use.start_bytes, use.peak_bytes, use.end_bytes) == (HOST, 300, 1000, 500)
    assert {(owner.where, owner.kind, owner.bytes) for owner in use.owners} == {
        ("before the trace began", "resident", 300),
        ("aten::linear", "activations", 500),
        ("aten::linear", "workspace", 200),
    }


def test_weights_and_optimizer_state_belong_to_their_modules() -> None:
    modules = {"weights": {"fc": 600, "Net": 100}, "optimizer state": {"fc": 400}}
    known = {"weights": 800, "optimizer state": 400, "device": "cpu", "modules": modules}
    use = memory_use(on_the_host(**known).build())
    assert use is not None
    assert use.peak_bytes == 1200 + 1000
    assert (use.by_kind["weights"], use.by_kind["optimizer state"], use.by_kind["resident"]) == (800, 400, 300)
    assert {(owner.where, owner.kind, owner.bytes) for owner in use.owners if not owner.blocks} == {
        ("fc", "weights", 600),
        ("Net", "weights", 100),
        ("other modules", "weights", 100),
        ("fc", "optimizer state", 400),
        ("before the trace began", "resident", 300),
    }
    assert sum(owner.bytes for owner in use.owners) == use.peak_bytes
    # What a program holds on a device is none of the host's.
    elsewhere = memory_use(on_the_host(**(known | {"device": "mps"})).build())
    assert elsewhere is not None
    assert elsewhere.peak_bytes == 1000


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_the_kinds_add_up_to_the_peak(path: Path) -> None:
    use = memory_use(read(path))
    if use is None:
        return
    assert sum(use.by_kind.values()) == use.peak_bytes
    assert all(bytes_ >= 0 for bytes_ in use.by_kind.values()), use.by_kind
    assert use.peak_bytes == max(held for _, held in use.timeline)
    assert use.peak_bytes <= use.reserved_bytes


events = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 1000)), min_size=1, max_size=40)


@settings(max_examples=60)
@given(events)
def test_any_sequence_of_allocations_and_releases_adds_up(moves: list[tuple[bool, int, int]]) -> None:
    trace, held = TraceBuilder(), 10_000
    alive: dict[int, int] = {}
    trace.step(0, 1000)
    for at, (wants, address, size) in enumerate(moves, 1):
        if wants and address not in alive:
            alive[address] = size
            held += size
            trace.memory(at, size, address, held)
        elif address in alive:
            held -= alive[address]
            trace.memory(at, -alive.pop(address), address, held)
    use = memory_use(trace.build())
    if use is None:
        return
    assert sum(use.by_kind.values()) == use.peak_bytes
    assert use.by_kind["resident"] == 10_000
    assert sum(owner.bytes for owner in use.unreleased) == sum(alive.values())
