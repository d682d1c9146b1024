"""Physics: a molecular potential, and three kernels of an ocean model."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload

OCEAN = "written here; {} of the ocean model Veros (Hafner et al., 2018), as in pyhpc-benchmarks; {}"
SIMPLER = "the density (25 terms) and its slopes instead of Veros' dynamic enthalpy (48 terms) and its slopes; "
NO_LOSS = {"train": "a simulation kernel without trainable parameters"}
NO_HALF = {"fp16": "densities and pressures exceed float16"}


@workload(
    "lennard_jones",
    domain="other",
    task="molecular dynamics",
    source="written here; a network that learns Lennard-Jones' potential (1924) and its forces, as in functorch",
    batch=1000,
    sizes={"hidden": 16, "layers": 5},
    smoke={"batch": 16},
    optimizer="adam",
    unsupported={"torchscript": "the step computes forces as a gradient, which tracing does not record"},
)
class LennardJones:
    def build(self, hidden: int, layers: int) -> Any:
        from tare.workloads.networks.lennard_jones import Potential

        return Potential(hidden, layers)

    def inputs(self, batch: int, **_: int) -> Batch:
        import torch

        from tare.workloads.networks.lennard_jones import energy_and_force

        distance = 0.9 + 1.6 * torch.rand(batch, 1)
        direction = torch.nn.functional.normalize(torch.randn(batch, 3), dim=1)
        return Batch((distance * direction,), energy_and_force(distance * direction))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.mse_loss(output[0], target[0]) + 0.01 * functional.mse_loss(output[1], target[1])


class Ocean:
    """Fields over a box of ocean: west to east, south to north, bottom to top."""

    kernel = ""

    def build(self, **_: int) -> Any:
        from tare.workloads.networks import ocean

        return getattr(ocean, self.kernel)()

    def inputs(self, batch: int, side: int, levels: int) -> Batch:
        from tare.workloads.networks import ocean

        return Batch(getattr(ocean, self.kernel).fields(batch * side, side, levels))


def _ocean(name: str, kernel: str, title: str, formula: str, differs: str = "") -> None:
    definition = type(kernel, (Ocean,), {"kernel": kernel})
    workload(
        name,
        domain="other",
        task="ocean simulation",
        source=OCEAN.format(title, formula),
        differs=f"{differs}fields are random within their physical ranges; a batch of N is N boxes side by side",
        batch=1,
        sizes={"side": 200, "levels": 26},
        smoke={"side": 12, "levels": 5},
        unsupported={**NO_LOSS, **NO_HALF},
    )(definition())


_ocean(
    "pyhpc_equation_of_state", "EquationOfState", "the equation of state",
    "the density of sea water by Jackett et al. (2006)", SIMPLER,
)  # fmt: skip
_ocean(
    "pyhpc_isoneutral_mixing", "IsoneutralMixing", "isoneutral mixing",
    "the diffusion tensor along surfaces of equal density (Griffies et al., 1998)", SIMPLER,
)  # fmt: skip
_ocean(
    "pyhpc_turbulent_kinetic_energy", "TurbulentEnergy", "turbulent kinetic energy",
    "vertical mixing with an implicit solve of each column (Gaspar et al., 1990)",
)  # fmt: skip
