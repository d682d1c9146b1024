"""`tare.measure`: figures of a callable from its samples, its device, and what the audit says of it."""

import time
from statistics import median
from typing import Any

import pytest
import torch

import tare
from tare.api.steps import CallableProgram


@pytest.fixture(scope="module")
def slept() -> tare.Measurement:
    return tare.measure(time.sleep, 0.002, budget=0.3)


def test_the_figures_come_from_the_samples(slept: tare.Measurement) -> None:
    assert slept.gross.median == median(slept.samples)
    assert slept.latency.median == slept.p50 == median(slept.latencies)
    assert slept.gross.low <= slept.gross.median <= slept.gross.high
    assert slept.p50 <= slept.p95 <= slept.p99 <= max(slept.latencies)
    # Sleeping never ends early.
    assert min(slept.samples) >= 0.002
    assert slept.first_call >= 0.002


def test_memory_is_that_of_the_process(slept: tare.Measurement) -> None:
    assert slept.memory.peak > 2**20
    assert slept.device_memory is None


def test_a_result_shows_itself_in_one_line_as_text_and_as_html(slept: tare.Measurement) -> None:
    assert "\n" not in repr(slept)
    assert repr(slept).startswith("sleep on cpu: gross ")
    assert str(slept).splitlines()[0] == "sleep"
    assert "first call" in str(slept)
    page = slept._repr_html_()
    assert page.startswith('<div class="tare">')
    assert "<html" not in page
    assert "first call" in page
    assert slept.to_markdown().startswith("### sleep")


def test_arguments_are_passed_on() -> None:
    calls = []

    def step(*args: int, **kwargs: int) -> None:
        calls.append((args, kwargs))

    tare.measure(step, 1, 2, budget=0.05, third=3)
    assert set(map(str, calls)) == {str(((1, 2), {"third": 3}))}


def test_a_module_and_its_inputs_are_a_step() -> None:
    model = torch.nn.Linear(8, 8)
    result = tare.measure(model, torch.randn(2, 8), budget=0.1)
    assert (result.name, result.device) == ("Linear", "cpu")


def test_what_the_audit_says_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    audited = []

    def audit(program: CallableProgram, *_: object) -> str:
        audited.append(program.step())
        return "the step does not wait for its work"

    monkeypatch.setattr("tare.api.measure.left_in_threads", audit)
    result = tare.measure(sorted, [2, 1], budget=0.05)
    assert audited == [[1, 2]]
    assert "these times are too short: the step does not wait for its work" in result.notes


@pytest.mark.parametrize(
    ("step", "options", "line"),
    [
        (3, {}, "a step is a callable, not 3"),
        (sorted, {"budget": -1}, "budget"),
        (sorted, {"width": 2}, "width"),
        (len, {"device": "toaster"}, "device 'toaster' is not here .valid: .*cpu"),
    ],
)
def test_bad_input_is_refused_in_one_line(step: Any, options: dict[str, Any], line: str) -> None:
    with pytest.raises(tare.BadInput, match=line) as refused:
        tare.measure(step, [1], **options)
    assert "\n" not in str(refused.value)


def test_an_error_of_the_step_is_the_users() -> None:
    with pytest.raises(ZeroDivisionError):
        tare.measure(lambda: 1 // 0)
