"""Networks that are trained against each other, in one step.

The generator's loss passes through the discriminator but must not train it, so for this loss the discriminator is
called with detached parameters. One backward pass then gives every network the gradient of its own loss.
"""

from typing import Any

from torch.func import functional_call


def frozen(module: Any, *args: Any) -> Any:
    """The module's output, differentiable in its arguments but not in its parameters."""
    parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}
    return functional_call(module, parameters, args)
