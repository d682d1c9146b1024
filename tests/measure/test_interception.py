"""Interception on models small enough to say what they call."""

import torch
from torch.nn import functional

from tare.measure.interception import (
    api_calls,
    api_registry,
    aten_registry,
    core_of,
    core_registry,
    operator_calls,
)


def test_the_registries_hold_what_everyone_knows() -> None:
    assert {"torch.nn.functional.linear", "torch.matmul", "torch.Tensor.add_"} <= set(api_registry())
    assert {"aten::add", "aten::add_", "aten::linear", "aten::convolution"} <= set(aten_registry())
    core = set(core_registry())
    assert {"aten::add", "aten::convolution", "aten::addmm"} <= core
    assert not {"aten::add_", "aten::linear"} & core
    assert core < set(aten_registry())


def test_python_functions_are_seen_by_their_public_names() -> None:
    x = torch.randn(2, 3)
    seen = api_calls(lambda: functional.relu(x).add_(1).sum())
    assert seen == {"torch.nn.functional.relu", "torch.Tensor.add_", "torch.Tensor.sum"}


def test_operators_are_seen_with_the_parts_of_the_composite_ones() -> None:
    x, weight = torch.randn(2, 3), torch.randn(4, 3)
    with torch.inference_mode():
        seen = operator_calls(lambda: functional.linear(x, weight))
    assert "aten::linear" in seen
    assert "aten::mm" in seen


def test_backward_is_seen_too() -> None:
    weight = torch.randn(4, 3, requires_grad=True)
    seen = operator_calls(lambda: torch.tanh(weight).sum().backward())
    assert {"aten::tanh", "aten::tanh_backward", "aten::sum"} <= seen


def test_an_in_place_call_counts_for_its_core_operator() -> None:
    assert core_of({"aten::add_", "aten::relu", "aten::linear"}, {"aten::add", "aten::relu"}) == {
        "aten::add",
        "aten::relu",
    }


def test_the_result_is_the_same_as_without() -> None:
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    with torch.inference_mode():
        plain = model(x)
        results = []
        operator_calls(lambda: results.append(model(x)))
        api_calls(lambda: results.append(model(x)))
    for result in results:
        torch.testing.assert_close(result, plain)
