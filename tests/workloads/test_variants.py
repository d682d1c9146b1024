"""The batches that a case rotates through: of the same shapes, all different, the same in every process."""

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from zoo import ZOO

from tare.workloads import get_workload
from tare.workloads.base import Batch, Workload
from tare.workloads.variants import BATCHES, make_batches


class Given:
    """Inputs that a test gives, whatever the seed."""

    def __init__(self, *args: Any, target: Any = None) -> None:
        self._batch = Batch(args, target)

    def build(self) -> Any: ...

    def inputs(self, batch: int) -> Batch:  # noqa: ARG002
        return Batch(
            *pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, tuple(self._batch))
        )


def batches_of(definition: Any) -> list[Batch]:
    return make_batches(Workload("given", definition, "other", "", "", batch=4), 4, {})


def different(batches: list[Batch]) -> bool:
    first = [
        [leaf for leaf in pytree.tree_leaves(batch.args) if isinstance(leaf, torch.Tensor)] for batch in batches
    ]
    return all(
        any(not torch.equal(a, b) for a, b in zip(first[i], first[j], strict=True))
        for i in range(len(first))
        for j in range(i)
    )


def test_other_seeds_give_other_batches() -> None:
    batches = make_batches(get_workload("mlp"), 8, get_workload("mlp").defaults)
    assert len(batches) == BATCHES
    assert different(batches)
    again = make_batches(get_workload("mlp"), 8, get_workload("mlp").defaults)
    assert all(torch.equal(a.args[0], b.args[0]) for a, b in zip(batches, again, strict=True))
    own = get_workload("mlp").inputs(8, get_workload("mlp").defaults)
    assert torch.equal(batches[0].args[0], own.args[0])


@pytest.mark.parametrize("special", [torch.zeros(4, 3), torch.ones(4, 3), torch.eye(4), torch.full((4,), -2.5)])
def test_a_special_batch_gets_others_that_are_not(special: torch.Tensor) -> None:
    batches = batches_of(Given(special))
    assert different(batches)
    assert torch.equal(batches[0].args[0], special)
    for batch in batches[1:]:
        (values,) = batch.args
        assert (values.shape, values.dtype) == (special.shape, special.dtype)
        assert values.unique().numel() == values.numel()


def test_whole_numbers_only_change_places() -> None:
    tokens = torch.arange(12).reshape(4, 3)
    for batch in batches_of(Given(tokens))[1:]:
        assert sorted(batch.args[0].flatten().tolist()) == list(range(12))
        assert not torch.equal(batch.args[0], tokens)


def test_what_is_no_tensor_stays() -> None:
    batches = batches_of(Given({"x": torch.randn(4), "scale": 2, "name": "a"}))
    assert all(batch.args[0]["scale"] == 2 and batch.args[0]["name"] == "a" for batch in batches)
    assert different(batches)


class Ragged:
    """Another number of rows for every seed."""

    def build(self) -> Any: ...

    def inputs(self, batch: int) -> Batch:
        return Batch((torch.randn(batch + int(torch.randint(1, 50, ())), 2),))


def test_batches_of_other_shapes_are_replaced_by_derived_ones() -> None:
    batches = batches_of(Ragged())
    assert len({batch.args[0].shape for batch in batches}) == 1
    assert different(batches)


@pytest.mark.full
@pytest.mark.parametrize("name", ZOO)
def test_every_workload_of_the_zoo_has_different_batches(name: str) -> None:
    workload = get_workload(name)
    assert different(make_batches(workload, workload.smoke_batch, workload.smoke_sizes))
