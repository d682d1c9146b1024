"""The worker's side of `tare show workload`: parameters, and the FLOPs of one step with what was not counted."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from tare.cases.case import Case
from tare.execute.protocol import Flops, Inspected, Uncounted
from tare.measure.interception import OperatorCalls
from tare.workloads import Workload, get_workload

_aten = torch.ops.aten
SHAPES, RUN = "from shapes, nothing was computed", "counted while it ran"


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """The scores and the weighted sum, for every head of the query: heads may share a key and a value, which the
    formula in torch refuses."""
    batch, heads, length, width = query
    return int(2 * batch * heads * length * key[-2] * (width + value[-1]))


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    """The gradients of a product are two products of its size; that scores are computed again is not counted, as
    in torch's own formulas."""
    return 2 * _attention(query, key, value)


def _recurrent(x: Any, into: Any, again: Any, *_: Any, **__: Any) -> int:
    """Two products a step and item: the gates of the input, and of the state before."""
    steps, batch, _features = x
    return int(2 * steps * batch * (into[0] * into[1] + again[0] * again[1]))


# Operators of the CPU that torch's counter has no formula for. They are given shapes.
FORMULAS = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _aten.mkldnn_rnn_layer: _recurrent,
    # The gradients of a product are two products of its size.
    _aten.mkldnn_rnn_layer_backward: lambda *args, **_: 2 * _recurrent(*args),
}


def inspect(case: Case) -> Inspected:
    """Builds the model on the CPU; its steps are counted from shapes alone where its code allows that."""
    workload = get_workload(case.workload)
    model, batch = workload.build(case.sizes), workload.inputs(case.batch, case.sizes)
    parameters = list(model.parameters())
    tensors = [leaf for leaf in pytree.tree_leaves(batch.args) if isinstance(leaf, torch.Tensor)]
    trains = workload.refusal({"train", "fp32", "cpu", "eager"}) is None
    return Inspected(
        parameters=sum(p.numel() for p in parameters),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        buffer_bytes=sum(b.numel() * b.element_size() for b in model.buffers()),
        inputs=[f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors],
        infer=_count(lambda: _infer(model.eval(), batch.args)),
        train=_count(lambda: _train(workload, model.train(), batch)) if trains else None,
    )


def _infer(model: Any, args: tuple[Any, ...]) -> None:
    with torch.no_grad():
        model(*args)


def _train(workload: Workload, model: Any, batch: Any) -> None:
    workload.loss(model(*batch.args), batch.target).backward()


def _count(step: Callable[[], None]) -> Flops:
    try:
        return _counted(step, fake=True)
    except Exception as error:  # noqa: BLE001 - whatever the model's code does with values that are not there
        first = error
    try:
        return _counted(step, fake=False)
    except Exception as error:  # noqa: BLE001 - reported: a model that cannot run has no FLOPs, and says why
        why = f"{type(error).__name__}: {error}" if str(error) else repr(first)
        return Flops(reason=" ".join(why.split())[:300])


def _counted(step: Callable[[], None], fake: bool) -> Flops:
    calls: dict[str, list[int]] = {}
    counter = FlopCounterMode(display=False, custom_mapping=FORMULAS)

    def note(func: Any, made: Any) -> None:
        if func._overloadpacket in counter.flop_registry or func.is_view:
            return
        entry = calls.setdefault(str(func._schema.name).removeprefix("aten::"), [0, 0])
        entry[0] += 1
        entry[1] += sum(t.numel() for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor))

    with ExitStack() as modes:
        if fake:
            from torch._subclasses.fake_tensor import FakeTensorMode

            modes.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        # The mode entered last sees an operator first: what the counter has taken apart arrives here in parts.
        modes.enter_context(OperatorCalls(note))
        modes.enter_context(counter)
        step()
    uncounted = [Uncounted(operator=name, calls=n, elements=e) for name, (n, e) in calls.items()]
    return Flops(
        total=int(counter.get_total_flops()),
        how=SHAPES if fake else RUN,
        uncounted=sorted(uncounted, key=lambda one: -one.elements),
    )
