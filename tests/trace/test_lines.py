"""The lines that launched operators: two lines of one function are told apart."""

import json
import sys
from pathlib import Path

import pytest
import torch
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import find
from tare.measure.line_marks import PREFIX
from tare.trace.idle import explain_idle
from tare.trace.read import read
from tare.trace.tables import Trace
from tare.worker.profiling import record

X = torch.randn(8, 8)


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.sin()  # sin


def planted_step() -> torch.Tensor:
    y = X + 1  # add
    z = (
        y @ X,  # matmul
        helper(y),
    )
    values = [value.exp() for value in z]  # exp
    return values[0].cos() + helper(values[1]).tan()  # cos tan


def lines_of(trace: Trace, name: str) -> set[str]:
    """The names of the user's lines around the operators of this name."""
    rows = trace.named(trace.operators, name)
    frames = trace.frames.innermost(trace.operators.thread[rows], trace.operators.start[rows])
    return {trace.name(trace.frames, int(trace.frames.line[frame])) for frame in frames}


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if f"# {comment}" in line]
    return number


def test_each_operator_has_the_line_that_called_it(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    tracing = sys.gettrace()
    record(planted_step, lambda: None, "cpu", str(path), 2, True, {})
    assert sys.gettrace() is tracing
    if tracing:
        pytest.skip("a debugger or a coverage tool traces this process")
    trace = read(path)
    for operator, comment, function in (
        ("aten::add", "add", "planted_step"),
        ("aten::matmul", "matmul", "planted_step"),
        ("aten::sin", "sin", "helper"),
        ("aten::cos", "cos tan", "planted_step"),
        ("aten::tan", "cos tan", "planted_step"),
    ):
        where = lines_of(trace, operator)
        assert any(name.endswith(f"({line_of(comment)}): {function}") for name in where), (operator, where)
        # The sum in the last line is an addition too.
        assert len(where) == (2 if operator == "aten::add" else 1)
    assert any(f"({line_of('exp')}): " in name for name in lines_of(trace, "aten::exp"))
    # The marks themselves are no operators.
    assert not any(name.startswith(PREFIX) for name in {trace.names[i] for i in trace.operators.name})


def test_marks_split_each_call_of_their_own_function_alone(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.frame("train.py(10): step", 0, 100)
    builder.frame("train.py(30): other", 40, 60)
    builder.frame("train.py(10): step", 200, 300)
    for at, mark in (
        (5, "11 step"),
        (30, "12 step"),
        (45, "31 other"),
        (50, "13 step"),
        (70, "14 step"),
        (80, "0 step"),
    ):
        builder.op(f"{PREFIX} {mark}", at, at + 1)
    for i, at in enumerate((2, 20, 35, 42, 55, 65, 75, 90, 250)):
        builder.op(f"op{i}", at, at + 1)
    trace = read(builder.write(tmp_path / "t.json"))
    found = [next(iter(lines_of(trace, f"op{i}"))) for i in range(9)]
    step, other = "train.py({}): step", "train.py({}): other"
    # A mark of another function than the one that runs is left out; after the last mark no line is known.
    assert found == [
        step.format(10), step.format(11), step.format(12), other.format(30), other.format(31),
        step.format(12), step.format(14), step.format(10), step.format(10),
    ]  # fmt: skip


def test_a_hostile_mark_names_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.frame("train.py(10): step", 0, 100)
    for at, mark in ((5, "999999999999999999999 step"), (6, "-1 step"), (7, "x"), (8, "")):
        builder.op(f"{PREFIX} {mark}", at, at + 1)
    builder.op("op", 50, 51)
    assert lines_of(read(builder.write(tmp_path / "t.json")), "op") == {"train.py(10): step"}


def test_how_many_steps_a_live_recording_has_is_checked(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for i in range(3):
        builder.step(100 * i, 100 * i + 90, i)
        builder.op("op", 100 * i, 100 * i + 50)
    path = builder.write(tmp_path / "t.json")
    document = json.loads(path.read_text())
    for steps, expected in ((2, 2), (3, 3), (0, 3), (-1, 3), ("2", 3), (10**30, 3)):
        path.write_text(json.dumps(document | {"tare_live": {"steps": steps}}))
        assert len(read(path).steps) == expected


def test_findings_and_idle_time_name_the_line_that_launched(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for i in range(3):
        begin = 2000 * i
        builder.step(begin, begin + 1900)
        builder.frame("train.py(10): step", begin, begin + 1890)
        builder.op(f"{PREFIX} 12 step", begin + 5, begin + 6)
        builder.launch(begin + 100, begin + 110, begin + 115, begin + 300)
        builder.op(f"{PREFIX} 14 step", begin + 310, begin + 311)
        # An item() each step: a copy from the device that waits.
        builder.op("aten::item", begin + 320, begin + 900)
        builder.op("aten::_local_scalar_dense", begin + 321, begin + 899)
        correlation = builder.call("cudaMemcpyAsync", begin + 330, begin + 340)
        builder.copy("DtoH (Device -> Pageable)", begin + 345, begin + 347, correlation, 4)
        builder.call("cudaStreamSynchronize", begin + 341, begin + 890)
        builder.op(f"{PREFIX} 16 step", begin + 950, begin + 951)
        builder.launch(begin + 1500, begin + 1510, begin + 1515, begin + 1700)
    trace = read(builder.write(tmp_path / "t.json"))
    idle = explain_idle(trace)
    assert idle is not None
    places = {place.where for cause in idle.causes for place in cause.places}
    assert any(where.startswith("train.py(14): step · aten::item") for where in places)
    assert any(where.startswith("train.py(16): step") for where in places)
    assert not any("train.py(10)" in where and "aten::item" in where for where in places)
    (finding,) = [each for each in find(Context(trace)) if each.rule == "hidden-sync"]
    assert finding.locations[0].where.startswith("train.py(14): step")
