"""What one kernel computes: whole chains over rows, and nothing that would have to wait for itself."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fusible_modules import WIDTH, Block, Function
from torch import nn
from torch.nn import functional

from tare.rungs.vendor.fusion.emit import emit_step
from tare.rungs.vendor.fusion.trace import trace
from tare.rungs.vendor.lowering.capture import export
from tare.rungs.vendor.lowering.plan import ExecutionPlan

ROWS = torch.randn(4, 6, WIDTH)
MASK = torch.ones(6, WIDTH).triu(1) > 0


def kinds(module: nn.Module, *tensors: torch.Tensor, trains: bool = False) -> Counter[str]:
    plan = ExecutionPlan("f32", channels_last=False)
    emit_step(plan, trace(export(module.train(trains), tensors), module, tensors, trains), tensors)
    return Counter(op.kind for op in plan.ops)


class Plain(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


ONE_KERNEL: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "softmax with a scale and a mask": lambda x: torch.where(MASK, x * 0.3, -9e9).softmax(-1),
    "layer norm with its neighbours": lambda x: functional.gelu(functional.layer_norm(x.tanh() + x, (WIDTH,))),
    "layer norm of a layer norm": lambda x: functional.layer_norm(functional.layer_norm(x, (WIDTH,)), (WIDTH,)),
    "two results of one row": lambda x: (x.sum(-1), x / x.amax(-1, keepdim=True)),
    "reshaped between": lambda x: x.exp().reshape(24, WIDTH).softmax(-1).reshape(4, 6, WIDTH) + 1,
    "sums of columns and what reads them": lambda x: x - x.mean((0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name: str) -> None:
    assert kinds(Plain(ONE_KERNEL[name]), ROWS) == {"fused": 1}


def test_rows_and_columns_are_two_kernels() -> None:
    assert kinds(Plain(lambda x: x.softmax(-1).softmax(0)), ROWS) == {"fused": 2}


def test_a_kernel_does_not_wait_for_itself() -> None:
    """The product needs the softmax, and the sum needs both."""

    def attention(x: Any) -> Any:
        weights = x.softmax(-1)
        return weights + weights @ torch.ones(WIDTH, WIDTH).cumsum(-1)

    assert kinds(Plain(attention), ROWS) == {"fused": 2, "matmul": 1}


def test_elements_that_others_name_are_read_from_memory() -> None:
    """The row of a kernel is not whole while it is computed."""
    assert kinds(Plain(lambda x: x.exp()[:, torch.tensor([3, 1])] + 1), ROWS) == {"fused": 2}


def test_attention_reads_the_heads_where_the_projection_left_them() -> None:
    """Scores and their softmax, values and heads joined again: nothing is copied apart."""
    counts = kinds(Block(causal=False), ROWS)
    # Projections: 4 and 2 of attention. Kernels: two norms, a softmax, the bias of the projection, GELU with its
    # bias, the heads in their order, the residual sum at the end.
    assert counts["matmul"] == 6
    assert counts["fused"] <= 7


def test_what_nothing_reads_is_not_computed() -> None:
    assert kinds(Plain(lambda x: (x.exp(), x.sum())[0] * 2), ROWS) == {"fused": 1}


def test_the_same_is_computed_once() -> None:
    assert kinds(Function(lambda x: x.exp() + x.exp()), ROWS)["fused"] == 1


def test_layers_of_one_shape_share_their_kernels() -> None:
    plan = ExecutionPlan("f32", channels_last=False)
    module = nn.Sequential(*(Block(causal=True) for _ in range(3))).eval()
    emit_step(plan, trace(export(module, (ROWS,)), module, (ROWS,), False), (ROWS,))
    fused = [op.attributes["kernel"] for op in plan.ops if op.kind == "fused"]
    assert len(set(fused)) <= len(fused) / 2


def test_weights_of_one_gradient_each_have_their_own() -> None:
    class Sum(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.biases = nn.ParameterList(nn.Parameter(torch.zeros(WIDTH)) for _ in range(4))

        def forward(self, x: Any) -> Any:
            return sum(self.biases, start=x).square().mean()

    module, plan = Sum(), ExecutionPlan("f32", channels_last=False)
    emit_step(plan, trace(export(module, (ROWS,)), module, (ROWS,), True), (ROWS,))
    written = {value for op in plan.ops for value in op.outputs.values()}
    assert {parameter.gradient in written for parameter in plan.parameters} == {True}
