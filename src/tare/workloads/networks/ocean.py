"""Three kernels of an ocean model over boxes of (x, y, z), with z upwards, written from their formulas."""

from typing import Any

import torch
from torch import nn

from tare.workloads.networks.sea_water import density_slopes

# Veros' default setup, in seconds and metres, and its constants for mixing.
STEP, SPACING, THICKNESS = 1800.0, 20_000.0, 50.0
ALONG, SLOPE, TAPER = 1000.0, 1e-3, 2e-4
DISSIPATION, SMALLEST = 0.7, 1e-6


def tracers(x: int, y: int, z: int) -> tuple[Any, Any]:
    """Salinity (g/kg) and temperature (degrees) that grow from the bottom to the surface, with noise."""
    height = torch.linspace(0, 1, z)
    temperature = 2 + 16 * height + torch.rand(x, y, z)
    salinity = 34.5 + 0.5 * height + 0.2 * torch.rand(x, y, z)
    return salinity, temperature


class EquationOfState(nn.Module):
    """Density and its derivatives by temperature and salinity."""

    @staticmethod
    def fields(x: int, y: int, z: int) -> tuple[Any, ...]:
        salinity, temperature = tracers(x, y, z)
        return salinity, temperature, torch.linspace(4000, 0, z).expand(x, y, z).contiguous()

    def forward(self, salinity: Any, temperature: Any, pressure: Any) -> Any:
        return density_slopes(salinity, temperature, pressure)


class IsoneutralMixing(nn.Module):
    """The tensor that diffuses along surfaces of equal density (Griffies et al., 1998): slopes in the four triads
    of each face, tapered where they are steep (Danabasoglu and McWilliams, 1995)."""

    @staticmethod
    def fields(x: int, y: int, z: int) -> tuple[Any, ...]:
        return EquationOfState.fields(x, y, z)

    def forward(self, salinity: Any, temperature: Any, pressure: Any) -> Any:
        _, by_heat, by_salt = density_slopes(salinity, temperature, pressure)
        up_heat, up_salt = temperature.diff(dim=2) / THICKNESS, salinity.diff(dim=2) / THICKNESS
        components = []
        vertical = torch.zeros_like(temperature[:, :, :-1])
        for axis in (0, 1):
            across_heat, across_salt = temperature.diff(dim=axis) / SPACING, salinity.diff(dim=axis) / SPACING
            count = across_heat.shape[axis]
            along = torch.zeros_like(across_heat[:, :, :-1])
            mixed = []
            for side in (0, 1):
                # The density's derivatives in the cell on one side of the face.
                heat, salt = by_heat.narrow(axis, side, count), by_salt.narrow(axis, side, count)
                for level in (0, 1):
                    depth = slice(level, heat.shape[2] - 1 + level)
                    horizontal = heat[:, :, depth] * across_heat[:, :, depth]
                    horizontal = horizontal + salt[:, :, depth] * across_salt[:, :, depth]
                    upward = heat[:, :, depth] * up_heat.narrow(axis, side, count)
                    upward = upward + salt[:, :, depth] * up_salt.narrow(axis, side, count)
                    slope = -horizontal / torch.clamp(upward, max=-1e-12)
                    taper = (1 + torch.tanh((SLOPE - slope.abs()) / TAPER)) / 2
                    along = along + ALONG * taper / 4
                    mixed.append(ALONG * taper * slope)
                    square = ALONG * taper * slope.square() / 4
                    pad = (0, 0, 0, 0, side, 1 - side) if axis == 0 else (0, 0, side, 1 - side)
                    vertical = vertical + nn.functional.pad(square, pad)
            components += [along, torch.stack(mixed, dim=-1)]
        return (*components, vertical)


class TurbulentEnergy(nn.Module):
    """Turbulent kinetic energy (Gaspar et al., 1990): production, dissipation, vertical diffusion in one implicit
    step for each column, then transport by the flow with a limiter."""

    @staticmethod
    def fields(x: int, y: int, z: int) -> tuple[Any, ...]:
        energy = 1e-4 * (0.1 + torch.rand(x, y, z))
        flow = [0.1 * torch.randn(x, y, z) for _ in range(3)]
        stability = 1e-5 * (torch.rand(x, y, z) - 0.2)
        return energy, *flow, stability, 1e-4 * torch.rand(x, y)

    def forward(self, energy: Any, u: Any, v: Any, w: Any, stability: Any, wind: Any) -> Any:
        root = energy.clamp(min=0).sqrt()
        # Stratification and the distance to the surface bound the eddies' length.
        depth = THICKNESS * torch.arange(energy.shape[2], 0, -1, device=energy.device, dtype=energy.dtype)
        length = torch.minimum(root * (2 / stability.clamp(min=1e-12)).sqrt(), depth).clamp(min=0.1)
        viscosity = (0.1 * length * root).clamp(min=1e-4, max=100.0)
        shear = (
            u.diff(dim=2, append=u[:, :, -1:]).square() + v.diff(dim=2, append=v[:, :, -1:]).square()
        ) / THICKNESS**2
        prandtl = (6.6 * stability / shear.clamp(min=1e-12)).clamp(1.0, 10.0)
        production = viscosity * shear - viscosity / prandtl * stability
        between = STEP * (viscosity[:, :, 1:] + viscosity[:, :, :-1]) / (2 * THICKNESS**2)
        below, above = nn.functional.pad(between, (1, 0)), nn.functional.pad(between, (0, 1))
        diagonal = 1 + below + above + STEP * DISSIPATION * root / length
        right_side = energy + STEP * production
        right_side = torch.cat(
            [right_side[:, :, :-1], right_side[:, :, -1:] + (STEP / THICKNESS * wind.abs() ** 1.5)[..., None]], -1
        )
        solved = tridiagonal(-below, diagonal, -above, right_side).clamp(min=SMALLEST)
        return solved - STEP * self.transport(solved, u, v, w), viscosity

    def transport(self, energy: Any, u: Any, v: Any, w: Any) -> Any:
        total = torch.zeros_like(energy)
        for axis, flow, spacing in ((0, u, SPACING), (1, v, SPACING), (2, w * 1e-4, THICKNESS)):
            flux = superbee(energy, flow, axis, spacing)
            before, after = [0] * 6, [0] * 6
            before[2 * (2 - axis)], after[2 * (2 - axis) + 1] = 1, 1
            total = total + (nn.functional.pad(flux, after) - nn.functional.pad(flux, before)) / spacing
        return total


def superbee(field: Any, flow: Any, axis: int, spacing: float) -> Any:
    """Flux through the faces between cells with Roe's superbee limiter (1986). Differences across
    the boundary of the box count as zero."""
    count = field.shape[axis] - 1
    step = field.diff(dim=axis)
    speed = (flow.narrow(axis, 0, count) + flow.narrow(axis, 1, count)) / 2
    wide = nn.functional.pad(step, [1 if i // 2 == 2 - axis else 0 for i in range(6)])
    upwind = torch.where(speed > 0, wide.narrow(axis, 0, count), wide.narrow(axis, 2, count))
    ratio = upwind / torch.where(step.abs() < 1e-20, torch.full_like(step, 1e-20), step)
    limit = torch.maximum(torch.minimum(2 * ratio, torch.ones_like(ratio)), ratio.clamp(max=2)).clamp(min=0)
    courant = (speed * STEP / spacing).abs()
    centre = (field.narrow(axis, 0, count) + field.narrow(axis, 1, count)) / 2
    return speed * centre - speed.abs() * (1 - limit * (1 - courant)) * step / 2


def tridiagonal(below: Any, diagonal: Any, above: Any, right: Any) -> Any:
    """Solves tridiagonal systems along the last dimension by Thomas' algorithm."""
    below, diagonal, above, right = (x.unbind(-1) for x in (below, diagonal, above, right))
    factors, values = [above[0] / diagonal[0]], [right[0] / diagonal[0]]
    for i in range(1, len(diagonal)):
        pivot = diagonal[i] - below[i] * factors[-1]
        factors.append(above[i] / pivot)
        values.append((right[i] - below[i] * values[-1]) / pivot)
    for i in reversed(range(len(values) - 1)):
        values[i] = values[i] - factors[i] * values[i + 1]
    return torch.stack(values, dim=-1)
