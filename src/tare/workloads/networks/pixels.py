"""Agents with images as input: DrQ's encoder and random shifts, and the network of DQN."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.actor_critic import DISCOUNT, SoftActorCritic, layers

PAD = 4


def shift(images: Any, by: Any) -> Any:
    """Pads each image by four pixels and crops it at its own offset (section 4 of DrQ)."""
    size = images.shape[-1]
    padded = functional.pad(images, (PAD, PAD, PAD, PAD), mode="replicate")
    steps = torch.arange(size, device=images.device)
    rows = (by[:, 0, None] + steps)[:, None, :, None]
    columns = (by[:, 1, None] + steps)[:, None, None, :]
    image_index = torch.arange(images.shape[0], device=images.device)[:, None, None, None]
    channels = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return padded[image_index, channels, rows, columns]


class PixelEncoder(nn.Module):
    """Four convolutions of 32 filters, then 50 normalised features."""

    def __init__(self, resolution: int, features: int) -> None:
        super().__init__()
        side = (resolution - 3) // 2 + 1 - 6
        self.body = nn.Sequential(
            nn.Conv2d(9, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(),
            nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * side * side, features),
            nn.LayerNorm(features), nn.Tanh(),
        )  # fmt: skip

    def forward(self, images: Any) -> Any:
        return self.body(images / 255)


class Drq(nn.Module):
    """Algorithm 1 with two augmentations each for targets and for values (K = M = 2)."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = agent

    def forward(self, now: Any, action: Any, reward: Any, later: Any, done: Any, noise: Any, shifts: Any) -> Any:
        if self.training:
            now = torch.cat([shift(now, shifts[0]), shift(now, shifts[1])])
            later = torch.cat([shift(later, shifts[2]), shift(later, shifts[3])])
        return self.agent(now, action, reward, later, done, noise)


def drq(resolution: int, action: int, hidden: int, features: int) -> Any:
    return Drq(
        SoftActorCritic(
            lambda out: layers([features, hidden, hidden, out]),
            lambda: layers([features + action, hidden, hidden, 1]),
            action,
            PixelEncoder(resolution, features),
        )
    )


class Dqn(nn.Module):
    """Mnih et al. (2015): the value of each action, or in training the loss against a fixed target network."""

    def __init__(self, resolution: int, actions: int, width: int) -> None:
        super().__init__()
        side = (((resolution - 8) // 4 + 1) - 4) // 2 + 1 - 2
        self.values = self._network(width, side, actions)
        self.target = self._network(width, side, actions).requires_grad_(False)

    def _network(self, width: int, side: int, actions: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(4, width, 8, 4), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(2 * width * side * side, 16 * width), nn.ReLU(), nn.Linear(16 * width, actions),
        )  # fmt: skip

    def forward(self, now: Any, action: Any, reward: Any, later: Any, done: Any) -> Any:
        values = self.values(now)
        if not self.training:
            return values
        with torch.no_grad():
            expected = reward + (1 - done) * DISCOUNT * self.target(later).amax(1)
        return functional.smooth_l1_loss(values.gather(1, action[:, None]).squeeze(1), expected)
