"""Batches of real data as tensors, read from prepared arrays in the order that the job names."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import BadInput
from tare.protocol.jobs import BatchSource
from tare.workloads import Batch, get_workload
from tare.workloads.datasets.batches import Order, Shapes, make_batch
from tare.workloads.datasets.prepared import PreparedData


def shapes_of(case: Case) -> Shapes:
    """The shapes of the example batch of a case."""
    example = get_workload(case.workload).inputs(case.batch, case.sizes)
    return Shapes(
        args=tuple(tuple(arg.shape) for arg in example.args),
        target=tuple(example.target.shape) if example.target is not None else (),
        classes=case.sizes.get("classes"),
    )


def read_order(path: str, images: int) -> Order:
    order = np.fromfile(path, "<i8")
    if order.size and not 0 <= order.min() <= order.max() < images:
        raise BadInput(f"{path} names an image that is not there: there are {images}")
    return order


def arrays_of(source: BatchSource, order: Order, data: PreparedData) -> Iterator[list[NDArray[np.float32]]]:
    """The batches of an order, each as its input and target in float32."""
    shapes = Shapes((source.input,), source.target)
    for start in range(0, len(order), shapes.batch):
        yield make_batch(data.train, order[start : start + shapes.batch], shapes)


def batches_of(case: Case, source: BatchSource, number: int = 0) -> Iterator[Batch]:
    """The same as tensors, of one of the orders; the target gets the type of the workload's own target."""
    import torch

    kind = get_workload(case.workload).inputs(case.batch, case.sizes).target.dtype
    data = PreparedData(Path(source.folder))
    for *args, target in arrays_of(source, read_order(source.orders[number], len(data.train)), data):
        yield Batch(tuple(map(torch.from_numpy, args)), torch.from_numpy(target).to(kind))
