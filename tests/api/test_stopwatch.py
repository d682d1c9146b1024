"""`tare.stopwatch`: a region of the profiler while it records, and nothing otherwise."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import tare


def profiled_names(step: object) -> list[str]:
    assert callable(step)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    return [event.name for event in profiler.events() if event.is_user_annotation]


def test_the_profiler_sees_a_region_as_context_and_as_decorator() -> None:
    @tare.stopwatch("outer")
    def step(depth: int = 2) -> None:
        if depth:
            with tare.stopwatch("inner"):
                step(depth - 1)

    assert sorted(profiled_names(step)) == ["inner", "inner", "outer", "outer", "outer"]


def test_nothing_is_recorded_without_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.profiler, "record_function", None)
    with tare.stopwatch("quiet") as watch:
        assert watch.name == "quiet"


def test_an_error_passes_through_and_ends_the_region() -> None:
    def step() -> None:
        with pytest.raises(ZeroDivisionError), tare.stopwatch("failing"):
            raise ZeroDivisionError
        with tare.stopwatch("after"):
            pass

    assert profiled_names(step) == ["failing", "after"]


@pytest.mark.full
def test_a_compiled_function_may_hold_one() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        with tare.stopwatch("doubling"):
            return x * 2

    compiled = torch.compile(double, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
