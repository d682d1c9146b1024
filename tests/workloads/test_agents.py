"""Agents: learning from several views of a state, and the networks of the painter."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from tare.workloads import get_workload


def test_each_view_adds_the_loss_of_its_critics() -> None:
    """With n equal views the loss is n times the critics' part and once the others': it grows by equal steps."""
    workload = get_workload("soft_actor_critic")
    agent = workload.build(workload.smoke_sizes).double().train()
    args = [arg.double() for arg in workload.inputs(4, workload.smoke_sizes).args]

    def loss(views: int) -> torch.Tensor:
        now, action, reward, later, done, noise = args
        again = [now.repeat(views, 1), action, reward, later.repeat(views, 1), done]
        return copy.deepcopy(agent)(*again, torch.cat([noise[:1].expand(views, -1, -1), noise[1:]])).detach()

    one, two, three = (loss(views) for views in (1, 2, 3))
    assert torch.allclose(three - two, two - one)
    assert float(two - one) > 0.0


@pytest.mark.full
def test_drq_learns_from_two_shifts_of_each_observation() -> None:
    workload = get_workload("drq")
    model = workload.build(workload.smoke_sizes).double().train()
    args = [
        arg.double() if arg.is_floating_point() else arg for arg in workload.inputs(2, workload.smoke_sizes).args
    ]

    def loss(shifts: Any) -> torch.Tensor:
        return copy.deepcopy(model)(*args[:-1], shifts).detach()

    whole = loss(args[-1])
    for i in range(4):
        other = args[-1].clone()
        other[i] = (other[i] + 1) % 9
        assert not torch.equal(loss(other), whole), f"shift {i} is not used"


def test_painter_has_the_networks_of_its_authors() -> None:
    workload = get_workload("LearningToPaint")
    with torch.device("meta"):
        painter = workload.definition.build(**workload.defaults)
    # ResNet-18 has 11689512 parameters; here the first layer sees nine channels in 3x3, the first stage halves
    # with a layer beside it, and there are 65 outputs.
    wanted = 11_689_512 - 513_000 - 9_408 + 9 * 64 * 9 + (64 * 64 + 2 * 64) + (512 + 1) * 65
    assert sum(p.numel() for p in painter.actor.parameters()) == wanted
    layers = [module for module in painter.critic.modules() if isinstance(module, nn.Conv2d)]
    assert len(layers) == 1 + 8 * 2 + 4
    assert all(is_parametrized(layer, "weight") for layer in layers)
    assert not any(
        isinstance(module, (nn.BatchNorm2d, nn.GroupNorm, nn.ReLU)) for module in painter.critic.modules()
    )


@pytest.mark.full
@pytest.mark.parametrize("part", ["slow_actor", "slow", "critic", "actor"])
def test_painter_learns_from_each_of_its_networks(part: str) -> None:
    workload = get_workload("LearningToPaint")
    painter = workload.build(workload.smoke_sizes).double().train()
    args = [arg.double() for arg in workload.inputs(2, workload.smoke_sizes).args]
    before = copy.deepcopy(painter)(*args).detach()
    with torch.no_grad():
        getattr(painter, part)[-1].bias.add_(1.0)
    assert not torch.allclose(painter(*args).detach(), before)
