"""Soft actor-critic (Haarnoja et al., 2018) with any encoder: an actor, two critics and their target networks."""

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from tare.workloads.networks.frozen import frozen

DISCOUNT, PACE = 0.99, 0.005
# Bounds of the logarithm of the actions' standard deviation.
LOWEST, HIGHEST = -5.0, 2.0


def layers(widths: Sequence[int]) -> nn.Sequential:
    parts: list[Any] = []
    for into, out in itertools.pairwise(widths):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def follow(slow: Any, quick: Any) -> None:
    """Moves a target network a little towards the trained one."""
    with torch.no_grad():
        for old, new in zip(slow.parameters(), quick.parameters(), strict=True):
            old.lerp_(new, PACE)


class SoftActorCritic(nn.Module):
    """`encode` maps a state to the input of actor and critics. Only the gradient of the critics reaches it.

    States may come in several augmented views, concatenated along the batch (Kostrikov et al., 2020). The target
    of the critics is the mean over the views of the next state; the critics learn it from each view of the current
    state, and the actor sees the first of these. `noise` has one batch for the action in each view of the next
    state, and one for the actor's action.
    """

    def __init__(
        self, actor: Callable[[int], Any], critic: Callable[[], Any], action: int, encode: Any = None
    ) -> None:
        super().__init__()
        self.encode = encode or nn.Identity()
        self.actor = actor(2 * action)
        self.critics = nn.ModuleList([critic(), critic()])
        self.slow_encode = copy.deepcopy(self.encode).requires_grad_(False)
        self.slow = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(torch.tensor(-2.0))
        self.entropy = -float(action)

    def act(self, features: Any, noise: Any) -> Any:
        """A squashed normal action and its log probability (appendix C of the paper)."""
        mean, log_std = self.actor(features).chunk(2, dim=-1)
        log_std = LOWEST + (HIGHEST - LOWEST) * (torch.tanh(log_std) + 1) / 2
        raw = mean + torch.exp(log_std) * noise
        log_density = -(noise.square() + math.log(2 * math.pi)) / 2 - log_std
        log_density = log_density - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return torch.tanh(raw), log_density.sum(-1, keepdim=True)

    def value(self, critics: Any, features: Any, action: Any) -> tuple[Any, Any]:
        inputs = torch.cat([features, action], dim=-1)
        return critics[0](inputs), critics[1](inputs)

    def forward(self, now: Any, action: Any, reward: Any, later: Any, done: Any, noise: Any) -> Any:
        if not self.training:
            return torch.tanh(self.actor(self.encode(now)).chunk(2, dim=-1)[0])
        follow(self.slow, self.critics)
        follow(self.slow_encode, self.encode)
        temperature = self.log_temperature.exp()
        views = len(noise) - 1
        with torch.no_grad():
            next_action, next_log_probability = self.act(self.encode(later), noise[:-1].flatten(0, 1))
            next_value = torch.minimum(*self.value(self.slow, self.slow_encode(later), next_action))
            soft_value = (next_value - temperature * next_log_probability).unflatten(0, (views, -1)).mean(0)
            target = (reward + (1 - done) * DISCOUNT * soft_value).repeat(views, 1)
        features = self.encode(now)
        first, second = self.value(self.critics, features, action.repeat(views, 1))
        critic_loss = views * ((first - target).square().mean() + (second - target).square().mean())
        actor_features = features[: len(action)].detach()
        new_action, log_probability = self.act(actor_features, noise[-1])
        inputs = torch.cat([actor_features, new_action], dim=-1)
        new_value = torch.minimum(frozen(self.critics[0], inputs), frozen(self.critics[1], inputs))
        actor_loss = (temperature.detach() * log_probability - new_value).mean()
        return critic_loss + actor_loss + temperature * (-log_probability.detach() - self.entropy).mean()
