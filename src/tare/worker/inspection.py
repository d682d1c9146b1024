"""For `tare show workload`: parameters, and the FLOPs of one step with the operators that were not counted."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import torch
from torch.utils import _pytree as pytree

from tare.errors import message_of
from tare.measure.flops import counted_calls
from tare.measure.interception import OperatorCall
from tare.protocol.jobs import InspectJob
from tare.protocol.messages import Flops, Inspected, Send, Uncounted
from tare.workloads import get_workload

SHAPES, RUN = "from shapes, nothing was computed", "counted while it ran"


def inspect(job: InspectJob, _: Send) -> Inspected:
    """Builds the model on the CPU. Steps are counted on fake tensors where the model's code allows it."""
    case = job.case
    workload = get_workload(case.workload)
    model, batch = workload.build(case.sizes), workload.inputs(case.batch, case.sizes)
    parameters = list(model.parameters())
    tensors = [leaf for leaf in pytree.tree_leaves(batch.args) if isinstance(leaf, torch.Tensor)]
    trains = workload.refusal({"train", "fp32", "cpu", "eager"}) is None

    def infer() -> None:
        with torch.no_grad():
            model.eval()(*batch.args)

    def train() -> None:
        workload.loss(model.train()(*batch.args), batch.target).backward()

    return Inspected(
        parameters=sum(p.numel() for p in parameters),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        buffer_bytes=sum(b.numel() * b.element_size() for b in model.buffers()),
        inputs=[f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors],
        infer=_count(infer),
        train=_count(train) if trains else None,
    )


def _count(step: Callable[[], None]) -> Flops:
    try:
        return _counted(step, fake=True)
    except Exception as error:  # noqa: BLE001 - the model's code may do anything with a value that a fake tensor has not
        first = error
    try:
        return _counted(step, fake=False)
    except Exception as error:  # noqa: BLE001 - reported as the reason
        message = message_of(error)
        why = f"{type(error).__name__}: {message}" if message else f"{type(first).__name__}: {message_of(first)}"
        return Flops(reason=" ".join(why.split())[:300])


def _counted(step: Callable[[], None], fake: bool) -> Flops:
    total = 0
    calls, elements = Counter[str](), Counter[str]()

    def note(call: OperatorCall, flops: int | None) -> None:
        nonlocal total
        total += flops or 0
        if flops is None and not call.func.is_view:
            name = str(call.func._schema.name).removeprefix("aten::")
            tensors = (leaf for leaf in pytree.tree_leaves(call.result) if isinstance(leaf, torch.Tensor))
            calls[name] += 1
            elements[name] += sum(tensor.numel() for tensor in tensors)

    with ExitStack() as modes:
        if fake:
            from torch._subclasses.fake_tensor import FakeTensorMode

            modes.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        modes.enter_context(counted_calls(note))
        step()
    uncounted = [Uncounted(operator=name, calls=calls[name], elements=n) for name, n in elements.most_common()]
    return Flops(total=total, how=SHAPES if fake else RUN, uncounted=uncounted)
