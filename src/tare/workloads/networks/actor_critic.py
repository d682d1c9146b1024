"""Soft actor-critic (Haarnoja et al., 2018) over any body: two critics, slow copies, an actor, a temperature."""

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from tare.workloads.networks.frozen import frozen

DISCOUNT, PACE = 0.99, 0.005
LOWEST, HIGHEST = -5.0, 2.0


def layers(widths: Sequence[int]) -> nn.Sequential:
    parts: list[Any] = []
    for into, out in itertools.pairwise(widths):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def follow(slow: Any, quick: Any) -> None:
    """Target networks move a little towards the learning ones."""
    with torch.no_grad():
        for old, new in zip(slow.parameters(), quick.parameters(), strict=True):
            old.lerp_(new, PACE)


class SoftActorCritic(nn.Module):
    """`encode` maps a state to what actor and critics see; the critics' gradient alone reaches it.

    States may come in several views, one batch behind the other (Kostrikov et al., 2020): what critics are to give
    is the mean over the later views, each of the present views learns it, and the actor sees the first of them.
    `noise` has a batch for the action in each later view, and one for the actor's.
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

    def act(self, seen: Any, noise: Any) -> Any:
        """A squashed normal action and its log probability (appendix C of the paper)."""
        mean, spread = self.actor(seen).chunk(2, dim=-1)
        spread = LOWEST + (HIGHEST - LOWEST) * (torch.tanh(spread) + 1) / 2
        raw = mean + torch.exp(spread) * noise
        log = -(noise.square() + math.log(2 * math.pi)) / 2 - spread
        log = log - 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return torch.tanh(raw), log.sum(-1, keepdim=True)

    def value(self, critics: Any, seen: Any, action: Any) -> tuple[Any, Any]:
        both = torch.cat([seen, action], dim=-1)
        return critics[0](both), critics[1](both)

    def forward(self, now: Any, action: Any, reward: Any, later: Any, done: Any, noise: Any) -> Any:
        if not self.training:
            return torch.tanh(self.actor(self.encode(now)).chunk(2, dim=-1)[0])
        follow(self.slow, self.critics)
        follow(self.slow_encode, self.encode)
        temperature = self.log_temperature.exp()
        views = len(noise) - 1
        with torch.no_grad():
            next_action, next_log = self.act(self.encode(later), noise[:-1].flatten(0, 1))
            least = torch.minimum(*self.value(self.slow, self.slow_encode(later), next_action))
            worth = (least - temperature * next_log).unflatten(0, (views, -1)).mean(0)
            wanted = (reward + (1 - done) * DISCOUNT * worth).repeat(views, 1)
        seen = self.encode(now)
        first, second = self.value(self.critics, seen, action.repeat(views, 1))
        critic = views * ((first - wanted).square().mean() + (second - wanted).square().mean())
        present = seen[: len(action)].detach()
        new_action, log = self.act(present, noise[-1])
        both = torch.cat([present, new_action], dim=-1)
        best = torch.minimum(frozen(self.critics[0], both), frozen(self.critics[1], both))
        actor = (temperature.detach() * log - best).mean()
        return critic + actor + temperature * (-log.detach() - self.entropy).mean()
