"""What a workload is: a model with random weights, a batch of random inputs, a loss, and what to know of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from tare.errors import unknown

SEED = 20_260_101


class Batch(NamedTuple):
    """The tensors of one step: the model's arguments and, for training, what the loss compares with."""

    args: tuple[Any, ...]
    target: Any = None


class Definition(Protocol):
    """What the author of a workload writes. The harness seeds torch before each call; nothing is downloaded."""

    def build(self, **sizes: int) -> Any: ...
    def inputs(self, batch: int, **sizes: int) -> Batch: ...


@dataclass(frozen=True)
class Size:
    default: int
    choices: tuple[int, ...] = ()
    minimum: int = 1
    maximum: int | None = None

    def refusal(self, name: str, value: int) -> str | None:
        if self.choices and value not in self.choices:
            return f"{name} is one of {', '.join(map(str, self.choices))}, not {value}"
        if value < self.minimum:
            return f"{name} is at least {self.minimum}, not {value}"
        if self.maximum is not None and value > self.maximum:
            return f"{name} is at most {self.maximum}, not {value}"
        return None


DOMAINS = ("vision", "nlp", "multimodal", "speech", "recommendation", "rl", "graph", "other")
# Packages whose name on the index is not the name of their module.
PACKAGES = {"torch_geometric": "torch-geometric"}


@dataclass(frozen=True)
class Workload:
    """A definition with its metadata.

    `sizes` are the full size, what the literature uses; `smoke` says which of them (and `batch`) are smaller where
    a step must take a moment on two CPU cores. `requires` are modules. `unsupported` maps what a case asks for to
    why it cannot be: a mode, precision, device type or rung, or several joined by slashes (`train/bf16`).
    `groups` are those beside its domain, `counterpart` the rows of TorchBench's Table 1 that it stands for under
    another name than its own.
    """

    name: str
    definition: Any
    domain: str
    task: str
    source: str
    batch: int
    sizes: Mapping[str, Size] = field(default_factory=dict)
    smoke: Mapping[str, int] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ("contiguous",)
    optimizer: str = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    differs: str = ""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    counterpart: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.domain not in DOMAINS:
            raise unknown("domain", self.domain, DOMAINS, f"workload {self.name}")
        for name in self.smoke:
            if name != "batch" and name not in self.sizes:
                raise unknown("smoke size", name, ("batch", *self.sizes), f"workload {self.name}")

    @property
    def defaults(self) -> dict[str, int]:
        return {name: size.default for name, size in self.sizes.items()}

    @property
    def smoke_sizes(self) -> dict[str, int]:
        return {name: self.smoke.get(name, size.default) for name, size in self.sizes.items()}

    @property
    def smoke_batch(self) -> int:
        return self.smoke.get("batch", self.batch)

    @property
    def trains(self) -> bool:
        return hasattr(self.definition, "loss")

    def refusal(self, asked: Collection[str]) -> str | None:
        """Why it cannot do what a case asks for (its mode, precision, device type, rung), or None."""
        for what, why in self.unsupported.items():
            if set(what.split("/")) <= set(asked):
                return why
        if "train" in asked and not self.trains:
            return f"{self.name} has no loss to train with"
        return None

    def lacking(self) -> list[str]:
        """The packages it needs that are not installed, by the names that pip knows."""
        return [PACKAGES.get(module, module) for module in self.requires if find_spec(module) is None]

    def remedy(self) -> str | None:
        """The one command that brings what it lacks, or None where nothing is missing. It names the torch that is
        here: pip would bring another for the newest of a package."""
        lacking = self.lacking()
        if not lacking:
            return None
        return f"pip install {' '.join(lacking)} torch=={version('torch').partition('+')[0]}"

    def build(self, sizes: Mapping[str, int]) -> Any:
        """The model on the CPU in float32, the same weights in every process."""
        import torch

        from tare.workloads.networks.fill import QuickRandom

        torch.manual_seed(SEED)
        with QuickRandom():
            return self.definition.build(**sizes)

    def inputs(self, batch: int, sizes: Mapping[str, int]) -> Batch:
        """One batch on the CPU, the same in every process."""
        import torch

        torch.manual_seed(SEED + 1)
        made = self.definition.inputs(batch, **sizes)
        return made if isinstance(made, Batch) else Batch(*made)

    def loss(self, output: Any, target: Any) -> Any:
        return self.definition.loss(output, target)
