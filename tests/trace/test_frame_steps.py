"""Steps found by the iterations of the outermost loop, in traces with stacks whose launches do not repeat."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import find
from tare.trace.explanation import About, explain
from tare.trace.read import read

MAIN = "train.py(20): main"
# What a program calls besides its iterations: a function of the trace and the moment, which returns when it ends.
Calls = Callable[..., float]


def call(trace: TraceBuilder, name: str, at: float, length: float = 20, operators: int = 1) -> float:
    """A function and what it computes, in operators whose names differ from call to call. Returns its end."""
    trace.frame(name, at, at + length)
    for number in range(operators):
        begun = at + 1 + number * (length - 2) / operators
        trace.op(f"aten::op_{at:.0f}_{number}", begun, begun + (length - 2) / operators - 0.1)
    return at + length


def iteration(trace: TraceBuilder, at: float, number: int) -> float:
    """60 us. The builtins have another address each time."""
    at = call(trace, f"<built-in method next of Loader object at 0x7f{number:04x}>", at, 10, 0)
    at = call(trace, "nn.Module: Net_0", at)
    at = call(trace, "torch/_tensor.py(570): backward", at)
    return call(trace, "torch/optim/optimizer.py(500): wrapper", at, 10)


def program(
    iterations: int = 6,
    before: Calls = lambda *at: at[1],
    between: Calls = lambda *at: at[1],
    after: Calls = lambda *at: at[1],
    frame: str = MAIN,
) -> TraceBuilder:
    trace = TraceBuilder()
    at = before(trace, 10.0)
    for number in range(iterations):
        at = between(trace, iteration(trace, at, number), number)
    at = after(trace, at)
    trace.frame("train.py(1): <module>", 0, at + 10)
    trace.frame(frame, 5, at + 5)
    return trace


def found(trace: TraceBuilder) -> list[tuple[int, int]]:
    """Start and end of the steps in microseconds."""
    steps = trace.build().steps
    assert not steps.marked
    return list(zip((steps.start // 1000).tolist(), (steps.end // 1000).tolist(), strict=True))


def test_iterations_are_steps() -> None:
    trace = program()
    assert found(trace) == [(10 + 60 * number, 70 + 60 * number) for number in range(6)]
    explanation = explain(trace.build(), About(title="loop"))
    assert any("6 repetitions of the same Python calls are the steps" in note for note in explanation.notes)
    assert explanation.host.steps == 6


def test_what_comes_before_the_loop_is_in_no_step() -> None:
    def setup(trace: TraceBuilder, at: float) -> float:
        at = call(trace, "model.py(1): build", at, 100)
        return call(trace, "torch/optim/optimizer.py(1): __init__", at, 40)

    assert found(program(before=setup))[0] == (150, 210)


def test_a_first_iteration_that_takes_long_is_warm_up() -> None:
    def slow(_: TraceBuilder, at: float, number: int) -> float:
        return at + (200 if number == 0 else 0)

    assert program(between=slow).build().steps.counted.tolist() == [0, 1, 1, 1, 1, 1]


def test_calls_made_now_and_then_do_not_count() -> None:
    """Every third iteration prints: it is 30 us longer."""

    def printing(trace: TraceBuilder, at: float, number: int) -> float:
        return call(trace, "<built-in function print>", at, 30, 0) if number % 3 == 0 else at

    steps = found(program(10, between=printing))
    # The print after the last iteration is in no step.
    assert [end - begin for begin, end in steps] == [90, 60, 60] * 3 + [60]


def test_what_takes_much_of_the_time_does_count() -> None:
    """Two calls of the model and one of everything else are one iteration."""

    def again(trace: TraceBuilder, at: float, _: int) -> float:
        return call(trace, "nn.Module: Net_0", at, 20)

    assert [end - begin for begin, end in found(program(between=again))] == [80] * 6


def test_a_short_end_belongs_to_no_step_and_a_long_one_is_no_end_of_a_loop() -> None:
    assert len(found(program(after=lambda trace, at: call(trace, "<built-in function print>", at, 5)))) == 6
    assert len(found(program(after=lambda trace, at: call(trace, "train.py(90): validate", at, 100)))) == 1


def test_too_few_iterations_are_one_stretch() -> None:
    assert len(found(program(2))) == 1


def test_layers_and_parameters_are_no_steps() -> None:
    """What a module calls, and what torch calls."""
    assert len(found(program(frame="nn.Module: Sequential_0"))) == 1
    assert len(found(program(frame="torch/optim/adam.py(300): _single_tensor_adam"))) == 1


def test_loops_that_compute_nothing_are_no_steps() -> None:
    trace = TraceBuilder()
    trace.frame(MAIN, 0, 1000)
    for number in range(8):
        trace.frame("train.py(5): parse", 10 * number, 10 * number + 8)
    trace.op("aten::mm", 500, 600)
    assert len(found(trace)) == 1


def test_the_outermost_loop_counts() -> None:
    """Three epochs of four iterations, under a function that makes nothing else."""
    trace, at = TraceBuilder(), 10.0
    for _ in range(3):
        begun = at
        for number in range(4):
            at = iteration(trace, at, number)
        trace.frame("train.py(40): epoch", begun, at)
    trace.frame(MAIN, 5, at + 5)
    assert [end - begin for begin, end in found(trace)] == [240] * 3


def test_launches_that_repeat_come_first() -> None:
    """Each iteration launches the same three kernels twice: so do the steps that launches find."""
    trace = TraceBuilder()
    for number in range(12):
        for part, kernel in enumerate(("a", "b", "c")):
            at = 30.0 * number + 8 * part
            trace.op(f"aten::{kernel}", at, at + 6)
            trace.launch(at + 1, at + 3, at + 4, at + 6, kernel=kernel)
    for number in range(6):
        trace.frame("train.py(5): both", 60.0 * number, 60.0 * number + 58)
    trace.frame(MAIN, 0, 400)
    assert len(found(trace)) == 12


@pytest.mark.parametrize("marks", [True, False])
def test_the_iterations_of_a_recorded_loop_are_found(tmp_path: Path, marks: bool) -> None:
    from torch.profiler import ProfilerActivity, profile, record_function

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(count: int) -> None:
        for number in range(count):
            optimizer.zero_grad()
            with record_function(f"ProfilerStep#{number}" if marks else "iteration"):
                loss = model(torch.randn(4, 8)).sum()
                loss.backward()
            optimizer.step()
            if number % 3 == 0:
                print(loss.item())

    train(2)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
        train(7)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    trace = read(path)
    assert (len(trace.steps), trace.steps.marked) == (7, marks)
    rows = [int(((trace.operators.start >= begin) & (trace.operators.start < end)).sum())
            for begin, end in zip(trace.steps.start[1:6], trace.steps.end[1:6], strict=True)]  # fmt: skip
    # Every step has the same operators, but those that print.
    assert max(rows) - min(rows) <= (0 if marks else 3)
    assert [finding.rule for finding in find(Context(trace)) if finding.severity != "low"] == []
