"""How much of a batch is padding, from the attention mask among the arguments of a step. A trace has the shape of
the mask and not its values."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

MASK = "attention_mask"


def arguments_of(program: Any) -> dict[str, Any]:
    """The arguments of a program's model by name: as the workload names them, or as the model's forward does."""
    definition = program.workload.definition
    names = getattr(definition, "names", ()) or getattr(definition, "arguments", ())
    # Python cannot tell the parameters of every model.
    with suppress(AttributeError, ValueError, TypeError):
        names = names or inspect.signature(program.model.forward).parameters
    return dict(zip(names, program.held.args, strict=False))


def padding(arguments: Mapping[str, Any]) -> dict[str, float] | None:
    """The share of positions that the mask hides, and the mask's shape; None without a mask of zeros and ones that
    hides any."""
    import torch

    mask = arguments.get(MASK)
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.numel() == 0:
        return None
    hidden = (mask == 0).double().mean().item()
    if not 0 < hidden < 1 or not bool(((mask == 0) | (mask == 1)).all()):
        return None
    batch, length = mask.shape
    return {"share": hidden, "batch": batch, "length": length}
