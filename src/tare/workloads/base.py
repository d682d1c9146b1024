"""A workload: a model with random weights, a batch of random inputs, a loss, and metadata."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, Protocol

from tare.errors import unknown
from tare.workloads.randomness import settle_dropout

SEED = 20_260_101
# Seeds of different runs are far from those of different batches.
RUN_STRIDE = 1_000_003
# The optimizer of a whole step that trains.
OWN_OPTIMIZER = "own"


class Batch(NamedTuple):
    """The tensors of one step: the model's arguments and, for training, the target of the loss."""

    args: tuple[Any, ...]
    target: Any = None


class Definition(Protocol):
    """What the author of a workload writes. torch is seeded before each call, and nothing is downloaded."""

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
# Packages whose name for pip is not the name of their module.
PACKAGES = {"torch_geometric": "torch-geometric"}


@dataclass(frozen=True)
class Workload:
    """A definition with its metadata.

    `sizes` are the full sizes, as in the literature; `smoke` holds the smaller sizes (and `batch`) of a step that
    is quick on two CPU cores. `requires` lists the modules that must be installed. `unsupported` maps a mode,
    precision, device type or rung, or several joined by slashes (`train/bf16`), to the reason why it is not
    supported. `groups` are the workload's groups besides its domain. `counterpart` lists the rows of TorchBench's
    Table 1 that the workload represents under another name. `tokens` are the tokens of one sample: the name of the
    size that counts them, or their number. Of an encoder-decoder they are those that it writes.

    Of a user's model (tare.workloads.own): `inputs_text` and `digest` are for the key of its cases, `parity_off`
    is why its author does not want it to be compared. `is_step` says that it is a whole step, `is_onnx` that it is
    a file in place of a model of torch.
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
    tokens: str | int = ""
    inputs_text: str | None = None
    digest: str | None = None
    parity_off: str = ""
    is_step: bool = False
    is_onnx: bool = False

    def __post_init__(self) -> None:
        if self.domain not in DOMAINS:
            raise unknown("domain", self.domain, DOMAINS, f"workload {self.name}")
        for name in self.smoke:
            if name != "batch" and name not in self.sizes:
                raise unknown("smoke size", name, ("batch", *self.sizes), f"workload {self.name}")
        if isinstance(self.tokens, str) and self.tokens and self.tokens not in self.sizes:
            raise unknown("size of tokens", self.tokens, self.sizes, f"workload {self.name}")

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
    def step_mode(self) -> Literal["infer", "train"]:
        """What a whole step does: one that trains has its own optimizer."""
        return "train" if self.optimizer == OWN_OPTIMIZER else "infer"

    @property
    def trains(self) -> bool:
        return hasattr(self.definition, "loss")

    def tokens_per_step(self, batch: int, sizes: Mapping[str, int]) -> int | None:
        """None where the workload does not say what a token is."""
        each = sizes.get(self.tokens) if isinstance(self.tokens, str) else self.tokens
        return batch * each if each else None

    def refusal(self, requested: Collection[str]) -> str | None:
        """The reason why a combination of mode, precision, device type and rung is not supported, or None."""
        for combination, reason in self.unsupported.items():
            if set(combination.split("/")) <= set(requested):
                return reason
        if "train" in requested and not self.trains:
            return f"{self.name} has no loss to train with"
        return None

    def lacking(self) -> list[str]:
        """The packages that are not installed, by their names for pip."""
        return [PACKAGES.get(module, module) for module in self.requires if find_spec(module) is None]

    def remedy(self) -> str | None:
        """The command that installs the missing packages, or None. It names the installed torch, because otherwise
        pip might replace it for the newest version of a package."""
        lacking = self.lacking()
        if not lacking:
            return None
        return f"pip install {' '.join(lacking)} torch=={version('torch').partition('+')[0]}"

    def build(self, sizes: Mapping[str, int], run: int = 0) -> Any:
        """The model on the CPU in float32, with the same weights in every process. Other runs have other
        weights."""
        import torch

        from tare.workloads.networks.fill import QuickRandom

        torch.manual_seed(SEED + RUN_STRIDE * run)
        with QuickRandom():
            return settle_dropout(self.definition.build(**sizes))

    def inputs(self, batch: int, sizes: Mapping[str, int], variant: int = 0) -> Batch:
        """One batch on the CPU, the same in every process. Other variants come from other seeds."""
        import torch

        torch.manual_seed(SEED + 1 + variant)
        tensors = self.definition.inputs(batch, **sizes)
        return tensors if isinstance(tensors, Batch) else Batch(*tensors)

    def loss(self, output: Any, target: Any) -> Any:
        return self.definition.loss(output, target)
