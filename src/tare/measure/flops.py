"""Counting FLOPs: torch's formulas, and ours for operators that torch has none for."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, shape_wrapper

from tare.measure.interception import OperatorCall, OperatorCalls

_aten = torch.ops.aten


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Scores and weighted sum for every head of the query. Heads may share a key and a value, which torch's own
    formula does not support."""
    batch, heads, length, width = query
    return int(2 * batch * heads * length * key[-2] * (width + value[-1]))


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    """The gradients of a product are two products of its size. Recomputed scores do not count, as in torch's own
    formulas."""
    return 2 * _attention(query, key, value)


def _recurrent(x: Any, into: Any, again: Any, *_: Any, **__: Any) -> int:
    """Two products per step and item: the gates of the input, and of the previous state."""
    steps, batch, _features = x
    return int(2 * steps * batch * (into[0] * into[1] + again[0] * again[1]))


def _cudnn_recurrent(x: Any, weights: Any, *_: Any, **__: Any) -> int:
    """Every matrix of every layer and direction once per step and item; biases do not count. A packed input has
    its steps and items as one dimension."""
    return int(2 * math.prod(x[:-1]) * sum(math.prod(shape) for shape in weights if len(shape) == 2))


def _twice(formula: Callable[..., int]) -> Callable[..., int]:
    """The gradients of a product are two products of its size."""
    return lambda *args, **kwargs: 2 * formula(*args, **kwargs)


# Formulas of shapes.
_OURS = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _aten.mkldnn_rnn_layer: _recurrent,
    _aten.mkldnn_rnn_layer_backward: _twice(_recurrent),
    _aten._cudnn_rnn: _cudnn_recurrent,
    _aten._cudnn_rnn_backward: _twice(_cudnn_recurrent),
}
FORMULAS: Mapping[Any, Callable[..., int]] = {
    **flop_registry,
    **{operator: shape_wrapper(formula) for operator, formula in _OURS.items()},
}


def counted_calls(on_call: Callable[[OperatorCall, int | None], None]) -> OperatorCalls:
    """A mode that passes every operator that runs to `on_call` with its FLOPs, None without a formula. A composite
    operator arrives as its parts, unless it has a formula itself."""

    def count(call: OperatorCall) -> None:
        if not call.composite:
            formula = FORMULAS.get(call.func._overloadpacket)
            flops = formula and int(formula(*call.args, **call.kwargs, out_val=call.result))
            on_call(call, flops)

    return OperatorCalls(count, decomposes=lambda func: func._overloadpacket not in FORMULAS)
