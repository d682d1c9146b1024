"""The Lennard-Jones potential, and a network that learns it and its forces."""

import itertools
from typing import Any

from torch import nn
from torch.func import grad, vmap

from tare.workloads.networks.outside import outside


def energy_and_force(position: Any) -> tuple[Any, Any]:
    """4 (r^-12 - r^-6) at unit depth and width, and minus its gradient."""
    distance = position.norm(dim=1, keepdim=True)
    sixth = distance**-6
    slope = 4 * (-12 * sixth * sixth + 6 * sixth) / distance
    return 4 * (sixth * sixth - sixth), -slope * position / distance


class Potential(nn.Module):
    """Layers with tanh from the distance to the energy. The force on each atom is minus its derivative."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        widths = [1, *[hidden] * layers, 1]
        parts: list[Any] = []
        for into, out in itertools.pairwise(widths):
            parts += [nn.Linear(into, out), nn.Tanh()]
        self.energy = nn.Sequential(*parts[:-1])

    def forward(self, position: Any) -> Any:
        def energy_at(place: Any) -> Any:
            return self.energy(place.norm(dim=0, keepdim=True)).squeeze()

        return self.energy(position.norm(dim=1, keepdim=True)), -outside(vmap(grad(energy_at)), position)
