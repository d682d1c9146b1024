"""Models of transformers with positional tensors as arguments and one tensor as output."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from tare.workloads.networks.still import still_config


class ByPosition(nn.Module):
    def __init__(self, model: Any, names: Sequence[str], field: str, **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)
        self.field = field
        self.fixed = fixed

    def forward(self, *args: Any) -> Any:
        return getattr(self.model(**dict(zip(self.names, args, strict=True)), **self.fixed), self.field)


def from_config(
    model: str, config: str, names: Sequence[str] = ("input_ids",), field: str = "logits", **values: Any
) -> Any:
    """A model of transformers from a literal configuration, with random weights and nothing downloaded."""
    import transformers

    configuration = still_config(getattr(transformers, config)(**values))
    # The defaults stay: transformers chooses the attention implementation, and gradient checkpointing is off.
    return ByPosition(getattr(transformers, model)(configuration), names, field)
