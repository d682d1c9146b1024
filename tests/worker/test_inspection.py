"""What `tare show workload` counts, against numbers that can be worked out by hand."""

from typing import Any

import pytest
import torch

from tare.cases.case import Case
from tare.protocol.jobs import InspectJob
from tare.protocol.messages import Inspected
from tare.worker.inspection import RUN, SHAPES, _count, inspect
from tare.workloads import get_workload


def inspected(name: str, **sizes: int) -> Inspected:
    full = {**get_workload(name).defaults, **sizes}
    return inspect(InspectJob(case=Case(workload=name, rung="eager", batch=2, sizes=full)), print)


def test_a_perceptron_by_hand() -> None:
    found = inspected("mlp", width=8, depth=1, features=4, classes=3)
    assert found.parameters == found.trainable == (4 * 8 + 8) + (8 * 3 + 3)
    assert found.parameter_bytes == 4 * found.parameters
    assert found.inputs == ["float32[2, 4]"]
    forward = 2 * 2 * (4 * 8 + 8 * 3)
    assert found.infer is not None
    assert found.train is not None
    assert (found.infer.total, found.infer.how) == (forward, SHAPES)
    # Backward: the weights of both layers, and the input of the second alone.
    assert found.train.total == forward + 2 * 2 * (4 * 8 + 2 * 8 * 3)
    assert [one.operator for one in found.infer.uncounted] == ["relu"]
    assert found.infer.uncounted[0].elements == 2 * 8


def test_a_recurrent_layer_by_hand() -> None:
    found = inspected("lstm", hidden=8, input=4, layers=1, steps=5)
    assert found.infer is not None
    assert found.infer.total == 2 * 5 * 2 * (4 * 8 * 4 + 4 * 8 * 8)


def test_attention_on_the_cpu_by_hand() -> None:
    query = torch.randn(1, 2, 16, 8)

    def step() -> None:
        with torch.no_grad():
            torch.nn.functional.scaled_dot_product_attention(query, query, query)

    # Two products of 16 x 8 x 16 for each of two heads.
    assert _count(step).total == 2 * 2 * 2 * 16 * 8 * 16


def test_heads_that_share_keys_count_each() -> None:
    query, key = torch.randn(1, 4, 16, 8, requires_grad=True), torch.randn(1, 2, 16, 8)

    def step() -> None:
        out = torch.nn.functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)
        out.sum().backward()

    forward = 2 * 2 * 4 * 16 * 8 * 16
    assert _count(step).total == forward + 2 * forward


def test_a_model_that_looks_at_its_numbers_has_to_run() -> None:
    weight = torch.randn(4, 4)

    def step() -> None:
        x = torch.ones(3, 4) @ weight
        if float(x.sum()) > -1e9:
            x @ weight

    counted = _count(step)
    assert (counted.total, counted.how) == (2 * 2 * 3 * 4 * 4, RUN)


def test_what_cannot_run_says_why() -> None:
    def step() -> Any:
        raise ValueError("no such layer")

    counted = _count(step)
    assert counted.total is None
    assert "no such layer" in counted.reason


@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_counting_from_shapes_agrees_with_counting_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tare.worker import inspection

    shapes = inspected(name)
    counted = inspection._counted
    monkeypatch.setattr(inspection, "_counted", lambda step, **_: counted(step, fake=False))
    ran = inspected(name)
    for a, b in ((shapes.infer, ran.infer), (shapes.train, ran.train)):
        assert a is not None
        assert b is not None
        assert a.total == b.total
        assert (a.how, b.how) == (SHAPES, RUN)
