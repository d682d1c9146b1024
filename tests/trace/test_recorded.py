"""Traces recorded on an H200 (torch 2.11): on every one the parts add up, and some say what is known."""

from functools import cache
from pathlib import Path

import pytest

from tare.records.codec import read_records
from tare.records.figures import gross
from tare.trace.breakdown import Breakdown, breakdown
from tare.trace.host_time import host_time
from tare.trace.idle import IdleTime, explain_idle
from tare.trace.read import read
from tare.trace.tables import Trace
from tare.trace.waterfall import device_waterfall

FOLDER = Path(__file__).parent / "recorded"
RESULTS = Path(__file__).parents[2] / "results"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


@cache
def explained(name: str) -> tuple[Trace, Breakdown, IdleTime]:
    trace = read(FOLDER / f"{name}.json.gz")
    parts, idle = breakdown(trace), explain_idle(trace)
    assert parts is not None
    assert idle is not None
    return trace, parts, idle


def shares(name: str) -> dict[str, float]:
    """Shares of the window: active, movement and each cause of idle time."""
    _, parts, idle = explained(name)
    parts_ns = {"active": parts.active, "movement": parts.movement} | {c.cause: c.idle for c in idle.causes}
    return {part: value / parts.window for part, value in parts_ns.items()}


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up(name: str) -> None:
    trace, parts, idle = explained(name)
    assert parts.window == parts.active + parts.movement + parts.idle
    assert parts.idle == idle.idle == sum(cause.idle for cause in idle.causes)
    for cause in idle.causes:
        assert cause.idle == sum(place.idle for place in cause.places)
    for step in parts.steps:
        assert step.window == step.active + step.movement + step.idle
        assert min(step.active, step.movement, step.idle) >= 0
    time = host_time(trace)
    assert time is not None
    assert time.window == sum(one.self_time for one in time.operators)
    gross = round(trace.metadata["tare_recorded"]["gross_ns"])
    made = device_waterfall(name, gross, parts, idle, None)
    assert sum(segment.ns for segment in made.segments) == gross
    assert all(segment.ns > 0 for segment in made.segments)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_was_lost(name: str) -> None:
    trace, parts, _ = explained(name)
    assert (parts.orphans, parts.lost_launches, trace.skipped) == (0, 0, 0)


def test_active_time_does_not_depend_on_how_kernels_are_launched() -> None:
    """The same kernels from Python and from a CUDA graph: what differs is how long the device waits for them."""
    _, eager, _ = explained("resnet50-infer-b1-eager")
    _, graph, _ = explained("resnet50-infer-b1-cudagraph")
    per_step = [parts.active / len(parts.steps) for parts in (eager, graph)]
    assert per_step[0] == pytest.approx(per_step[1], rel=0.05)
    assert (graph.graph_launches, graph.graph_kernels) == (2, 560)
    assert shares("resnet50-infer-b1-eager")["active"] < 0.1


def test_active_time_of_many_streams_is_that_of_the_cuda_graph() -> None:
    """What runs at once counts once. The same network as a CUDA graph, measured without a profiler, waits for
    nothing but the device."""
    _, parts, _ = explained("resnext50-infer-b32-eager-streams")
    records = read_records(RESULTS / "zoo" / "h200-streams.json.gz")
    graph = next(one for one in records if (one.case.workload, one.case.rung) == ("resnext50_32x4d", "cudagraph"))
    step = gross(graph)
    assert step is not None
    assert len(parts.streams) == 9
    assert parts.active / len(parts.steps) / 1e9 == pytest.approx(step.mid, rel=0.01)


@pytest.mark.parametrize(
    ("name", "part", "at_least"),
    [
        ("inefficient-starved-loader", "data loading", 0.7),
        ("inefficient-python-between-kernels-stack", "python", 0.8),
        ("inefficient-pageable-copy", "movement", 0.6),
        ("inefficient-fp32-matmul-tf32-off", "active", 0.9),
        ("inefficient-recompile", "dispatch", 0.9),
        ("resnet50-train-b32-eager-amp", "dispatch", 0.4),
    ],
)
def test_an_inefficiency_shows_in_its_segment(name: str, part: str, at_least: float) -> None:
    assert shares(name)[part] > at_least


def test_copies_by_direction_and_memory() -> None:
    def of(name: str) -> set[tuple[str, str, int]]:
        return {(c.direction, c.memory, c.bytes) for c in explained(name)[1].copies}

    assert of("inefficient-pageable-copy") == {("host to device", "pageable", 2 * 64 * 2**20)}
    assert of("inefficient-pinned-exposed-copy") == {("host to device", "pinned", 2 * 64 * 2**20)}
    assert {(direction, memory) for direction, memory, _ in of("inefficient-parameter-ping-pong")} == {
        ("host to device", "pageable"),
        ("device to host", "pageable"),
    }
    exposed = [(c.exposed, c.busy) for c in explained("good-overlapped-copy")[1].copies]
    assert exposed[0][0] < 0.25 * exposed[0][1]


def test_the_line_that_causes_idle_time_is_named() -> None:
    _, _, idle = explained("inefficient-python-between-kernels-stack")
    worst = next(cause for cause in idle.causes if cause.cause == "python").places[0]
    assert worst.where == "record_traces.py(118): python_bound"
    assert worst.idle > 0.8 * idle.idle * 0.9


def test_the_backward_pass_is_named_by_the_module_of_its_forward() -> None:
    _, _, idle = explained("mlp-train-eager-stack")
    places = [place.where for cause in idle.causes for place in cause.places]
    assert any("Linear_6 · autograd::engine::evaluate_function: AddmmBackward0" in where for where in places)
