"""Networks that play against each other, in one step.

The generator's loss passes through the discriminator, but must not move it: there it is called with parameters cut
from the graph. One backward pass then gives every network the gradient that a step of its own would give it.
"""

from typing import Any

from torch.func import functional_call


def frozen(module: Any, *args: Any) -> Any:
    """The module's output, differentiable in its arguments but not in its parameters."""
    parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}
    return functional_call(module, parameters, args)
