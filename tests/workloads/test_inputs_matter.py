"""What a workload gives depends on what it gets, by far more than rungs may differ: else a rung that is wrong
would be found the same as the reference."""

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tare.measure.parity import TOLERANCE
from tare.workloads import Workload, all_workloads, get_workload
from tare.workloads.base import SEED

NAMES = [name for name, workload in all_workloads().items() if not name.startswith("planted")]
# The whole input against what bfloat16 may differ by; each single input against float32's.
MOVES, MATTERS = TOLERANCE["bf16"], 10 * TOLERANCE["fp32"]
# Inputs that matter little by their nature.
LITTLE = {
    "pyhpc_equation_of_state": "the density of sea water is nearly that of water",
    "pytorch_stargan": "a judge that has learned nothing tells no domain from another",
    "pyhpc_turbulent_kinetic_energy": "the wind moves the uppermost level alone, and water rises slowly",
}


def leaves(output: Any) -> list[torch.Tensor]:
    found = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return [leaf.detach().double() for leaf in found]


def change(before: list[torch.Tensor], after: list[torch.Tensor]) -> float:
    """The largest relative change of any tensor; a number of boxes that changes is a change."""
    if [leaf.shape for leaf in before] != [leaf.shape for leaf in after]:
        return 1.0
    sizes = [(float((a - b).norm()), float(a.norm())) for a, b in zip(before, after, strict=True)]
    return max(off / size if size else off for off, size in sizes)


def run(workload: Workload, model: Any, args: Any, target: Any) -> list[torch.Tensor]:
    """Of a copy: a step may write to its model, and to a cache among its inputs."""
    own, args = copy.deepcopy(model), pytree.tree_map(torch.clone, args)
    if not model.training:
        with torch.inference_mode():
            return leaves(own(*args))
    return leaves(workload.loss(own(*args), target))


@pytest.mark.parametrize("name", NAMES)
def test_what_goes_in_is_seen_in_what_comes_out(name: str) -> None:
    workload = get_workload(name)
    sizes = workload.smoke_sizes
    model, batch = workload.build(sizes).eval(), workload.inputs(workload.smoke_batch, sizes)
    torch.manual_seed(SEED + 2)
    other = workload.definition.inputs(workload.smoke_batch, **sizes)
    drawn = [i for i, arg in enumerate(batch.args) if not torch.equal(arg, other.args[i])]
    before = run(workload, model, batch.args, None)
    seen = {}
    for i in drawn:
        args = [*batch.args[:i], other.args[i], *batch.args[i + 1 :]]
        seen[i] = change(before, run(workload, model, args, None))
    assert max(seen.values()) > MOVES, f"{name} gives the same whatever it gets: {seen}"
    little = [i for i, moved in seen.items() if moved <= MATTERS]
    if little and name not in LITTLE:
        assert workload.trains, f"inputs {little} do not matter: {seen}"
        model.train()
        args = [other.args[i] if i in little else arg for i, arg in enumerate(batch.args)]
        before = run(workload, model, batch.args, batch.target)
        moved = change(before, run(workload, model, args, batch.target))
        assert moved > MATTERS, f"inputs {little} matter neither at inference nor in training: {seen}, {moved}"
