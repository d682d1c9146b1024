"""The real frame counter on the torch wheel, with eager on the CPU."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from counter import StackCounter, stack_of

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor, RungWorker
from tare.execute.launch import SpawnLauncher
from tare.records.call_depth import CallDepth
from tare.workloads import get_workload


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackCounter]:
    with closing(StackCounter(tmp_path_factory.mktemp("counter"))) as stack_counter:
        yield stack_counter


def case(workload: str, **sizes: int) -> Case:
    return Case(workload=workload, rung="eager", batch=4, sizes={**get_workload(workload).defaults, **sizes})


@pytest.fixture(scope="module")
def convolution(counter: StackCounter) -> CallDepth:
    return counter.depth(case("conv_chain", calls=3, channels=16, resolution=32))


def test_python_frames_lead_from_the_step_to_the_operator(convolution: CallDepth) -> None:
    names = [frame.name for frame in reversed(stack_of(convolution).python)]
    assert names[0].endswith("<lambda>")
    assert names[1:] == [
        "Module._wrapped_call_impl",
        "Module._call_impl",
        "Sequential.forward",
        "Module._wrapped_call_impl",
        "Module._call_impl",
        "Conv2d.forward",
        "Conv2d._conv_forward",
    ]


def test_native_frames_lead_from_the_interpreter_through_the_operator_to_the_vendor(
    convolution: CallDepth,
) -> None:
    stack = stack_of(convolution)
    names = [frame.name for frame in stack.native]
    assert stack.native[0].part == "vendor"
    assert any(name.startswith("at::_ops::conv2d::call(") for name in names)
    assert names[-1] == "_PyEval_EvalFrameDefault"
    parts = [frame.part for frame in stack.native if frame.part in ("interpreter", "framework", "vendor")]
    assert parts == sorted(parts, key=["vendor", "framework", "interpreter"].index)
    assert not any("tare_frames" in name for name in names), "the counter counts itself"


def test_every_call_of_the_step_is_seen(convolution: CallDepth) -> None:
    assert convolution.calls >= 3
    assert convolution.least <= stack_of(convolution).total <= convolution.most


@pytest.mark.full
def test_a_workload_without_convolutions_is_counted_to_its_matrix_product(counter: StackCounter) -> None:
    stack = counter.stack(case("mlp"))
    assert stack.kind == "product"
    assert stack.python[0].name == "Linear.forward"


def test_a_worker_that_does_not_mark_the_call_is_a_failure(
    counter: StackCounter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This program succeeds and writes no stacks.
    program = """import os; os.write(int(os.environ["TARE_FD"]), b'{"kind": "done"}\\n')"""
    worker = RungWorker(SpawnLauncher((sys.executable, "-c", program)))
    monkeypatch.setattr(LocalExecutor, "rung_worker", lambda *_: worker)
    monkeypatch.setattr(counter.executor, "scratch", tmp_path)
    failure = counter.depth(case("mlp")).failure
    assert failure is not None
    assert "docs/protocol.md" in failure.message


@pytest.mark.full
def test_counting_in_parallel_gives_the_same_stacks(counter: StackCounter) -> None:
    cases = [case("mlp"), case("conv_chain", calls=3)]
    options = Options(rounds=1, timeout=600, jobs=2)
    stacks = {depth.case.key: stack_of(depth) for depth in counter.depths(cases, options)}
    assert stacks == {case.key: counter.stack(case) for case in cases}
