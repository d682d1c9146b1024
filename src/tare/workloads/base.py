"""What a workload is: a model with random weights, a batch of random inputs, a loss, and what to know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

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

    def refusal(self, name: str, value: int) -> str | None:
        if self.choices and value not in self.choices:
            return f"{name} is one of {', '.join(map(str, self.choices))}, not {value}"
        if value < self.minimum:
            return f"{name} is at least {self.minimum}, not {value}"
        return None


@dataclass(frozen=True)
class Workload:
    """A definition with its metadata. `unsupported` maps a case's value (a mode, a precision, a rung) to why."""

    name: str
    definition: Any
    domain: str
    task: str
    source: str
    batch: int
    sizes: Mapping[str, Size] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ("contiguous",)
    optimizer: str = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    differs: str = ""
    unsupported: Mapping[str, str] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, int]:
        return {name: size.default for name, size in self.sizes.items()}

    @property
    def trains(self) -> bool:
        return hasattr(self.definition, "loss")

    def lacking(self) -> list[str]:
        """The packages it needs that are not installed."""
        return [package for package in self.requires if find_spec(package) is None]

    def build(self, sizes: Mapping[str, int]) -> Any:
        """The model on the CPU in float32, the same weights in every process."""
        import torch

        torch.manual_seed(SEED)
        return self.definition.build(**sizes)

    def inputs(self, batch: int, sizes: Mapping[str, int]) -> Batch:
        """One batch on the CPU, the same in every process."""
        import torch

        torch.manual_seed(SEED + 1)
        made = self.definition.inputs(batch, **sizes)
        return made if isinstance(made, Batch) else Batch(*made)

    def loss(self, output: Any, target: Any) -> Any:
        return self.definition.loss(output, target)
