"""TorchScript on the whole zoo: a trace is right on a batch that it has not seen, or the workload declares that it
cannot be traced.

On the batch that it was traced with, even a trace that has frozen a decision is right, so that proves nothing.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest
import torch
from own_thread import own_thread
from torch.utils import _pytree as pytree
from zoo import ZOO

from tare.cases.case import Case, Mode
from tare.rungs import get_rung
from tare.rungs.torch.feeds import move
from tare.workloads import Batch, Workload
from tare.workloads.base import SEED

pytestmark = pytest.mark.full
# `frame_chain` can be traced, but without the Python frames that it measures.
WORKLOADS = [workload for name, workload in ZOO.items() if name != "frame_chain"]
CLOSE = 1e-4


def cases(possible: bool) -> list[Any]:
    """Modes that a workload supports in eager, and that it does (or does not) support on TorchScript."""
    return [
        pytest.param(workload, mode, id=f"{workload.name}-{mode}")
        for workload in WORKLOADS
        for mode in get_args(Mode)
        if not workload.refusal({mode}) and possible is not bool(workload.refusal({mode, "torchscript"}))
    ]


def traced(workload: Workload, mode: Mode) -> Any:
    case = Case(
        workload=workload.name,
        rung="torchscript",
        mode=mode,
        batch=workload.smoke_batch,
        sizes=workload.smoke_sizes,
        optimizer="sgd" if mode == "train" else None,
    )
    return get_rung("torchscript").prepare(workload, case)


def another(workload: Workload, program: Any) -> Batch:
    torch.manual_seed(SEED + 2)
    made = workload.definition.inputs(workload.smoke_batch, **workload.smoke_sizes)
    return move(Batch(*made), "cpu", program.numerics, "contiguous")


def crowded(model: Any, batch: Batch) -> Batch:
    """The batch with its objects moved to the proposed boxes, so that few proposals are background."""
    found: list[Any] = []
    hook = model.detector.rpn.register_forward_hook(lambda *passed: found.extend(passed[-1][0]))
    model(*batch.args)
    hook.remove()
    images, boxes, *rest = batch.args
    return Batch((images, torch.stack([made[: boxes.shape[1]].detach() for made in found]), *rest))


def run(program: Any, forward: Any, batch: Batch) -> list[Any]:
    """The output, or the loss from the initial state."""
    if not program.trains:
        return list(pytree.tree_leaves(forward(*batch.args)))
    program.rewind()
    return [program.workload.loss(forward(*batch.args), batch.target).detach()]


def difference(found: list[Any], wanted: list[Any]) -> float:
    if [leaf.shape for leaf in found] != [leaf.shape for leaf in wanted]:
        return float("inf")
    off = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(found, wanted, strict=True))
    size = sum(float(b.double().square().sum()) for b in wanted)
    return float((off / size) ** 0.5) if size else off


@pytest.fixture
def alone() -> Iterator[ThreadPoolExecutor]:
    with own_thread() as thread:
        yield thread


@pytest.mark.parametrize(("workload", "mode"), cases(possible=True))
def test_trace_is_right_on_another_batch(workload: Workload, mode: Mode, alone: ThreadPoolExecutor) -> None:
    def attempt() -> float:
        program = traced(workload, mode)
        other = another(workload, program)
        return difference(run(program, program.forward, other), run(program, program.model, other))

    assert alone.submit(attempt).result() < CLOSE


@pytest.mark.parametrize(("workload", "mode"), cases(possible=False))
def test_declared_limit_cannot_be_traced_or_is_wrong(
    workload: Workload, mode: Mode, alone: ThreadPoolExecutor
) -> None:
    made = alone.submit(traced, workload, mode)
    if made.exception():
        return
    program = made.result()

    def other() -> Batch:
        batch = another(workload, program)
        detects = hasattr(getattr(program.model, "detector", None), "rpn")
        return crowded(program.model, batch) if detects else batch

    batch = alone.submit(other).result()
    wanted = alone.submit(run, program, program.model, batch).result()
    found = alone.submit(run, program, program.forward, batch)
    assert found.exception() or difference(found.result(), wanted) > CLOSE
