"""Where a call of a step comes from: the module of the network that asks for it, and torch's operators in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# The network is a part of the step that is exported, under this name.
PREFIX = "model."


@dataclass(frozen=True)
class Origin:
    """`module` is the path of a module in the network (`layer1.0.conv1`), `model` for the network itself, and
    empty for what is outside of it: the loss, the update. `phase` is forward, backward or update."""

    module: str = ""
    phase: str = "forward"
    operators: tuple[str, ...] = ()


# What marks the nodes of a trace that compute gradients: one of the fields that torch copies to new nodes.
BACKWARD = {"phase": "backward"}


def origin_of(node: Any) -> Origin:
    """The origin of a node of torch's graph."""
    operator = str(node.meta.get("original_aten") or node.target).split(".")
    phase = "backward" if node.meta.get("custom") == BACKWARD else "forward"
    return Origin(module_of(node), phase, tuple(operator[1:2]))


def module_of(node: Any) -> str:
    """The path of the module that called an operator, where the graph still knows it."""
    stack = node.meta.get("nn_module_stack") or {}
    places = [place[0] for place in stack.values() if place[0]]
    return str(places[-1]).removeprefix("L['self'].").removeprefix(PREFIX) if places else ""


def merged_origin(origins: Sequence[Origin]) -> Origin:
    """The origin of one call that does the work of several: the module whose operator comes last. What a forward
    pass computes ahead for the backward pass belongs to the forward pass."""
    operators = dict.fromkeys(name for origin in origins for name in origin.operators)
    leading = [origin for origin in origins if origin.phase == "forward"] or origins
    return Origin(leading[-1].module, leading[-1].phase, tuple(operators)) if leading else Origin()
