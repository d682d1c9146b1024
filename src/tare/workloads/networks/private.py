"""Differentially private training (Abadi et al., 2016): each example's gradient is clipped, then noise is added.

The backward pass of the step must leave this gradient in the parameters. So training returns the mean loss with
its derivative replaced: value + sum((p - p.detach()) * g) has the value of the loss and the gradient g.
"""

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional
from torch.nn.grad import conv2d_weight

# The largest norm of an example's gradient, and the noise relative to it.
LONGEST, NOISE = 1.0, 1.0
GROUPS = 4


def convolution(into: int, out: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(into, out, size, stride, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(into, out, 3, stride), nn.GroupNorm(GROUPS, out), nn.ReLU(),
            convolution(out, out, 3, 1), nn.GroupNorm(GROUPS, out),
        )  # fmt: skip
        self.short: Any = nn.Identity()
        if stride > 1 or into != out:
            self.short = nn.Sequential(convolution(into, out, 1, stride), nn.GroupNorm(GROUPS, out))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.short(x))


def resnet(classes: int, depth: int, width: int) -> nn.Sequential:
    """ResNet-18 (two blocks per stage) or -10 (one) with group norm, because batch norm would mix the examples."""
    repeats = (depth - 2) // 8
    layers: list[Any] = [convolution(3, width, 3, 1), nn.GroupNorm(GROUPS, width), nn.ReLU()]
    into = width
    for stage in range(4):
        for i in range(repeats):
            layers.append(Block(into, width << stage, 2 if stage and not i else 1))
            into = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, classes))


def per_example(layer: Any, inputs: Any, output_gradient: Any) -> dict[str, Any]:
    """The gradient of a layer's parameters for each example, from its input and the gradient of its output."""
    if isinstance(layer, nn.Linear):
        return {"weight": torch.einsum("no,ni->noi", output_gradient, inputs), "bias": output_gradient}
    if isinstance(layer, nn.GroupNorm):
        normal = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
        return {"weight": (normal * output_gradient).sum((2, 3)), "bias": output_gradient.sum((2, 3))}
    weight = vmap(lambda x, g: conv2d_weight(x[None], layer.weight.shape, g[None], layer.stride, layer.padding))(
        inputs, output_gradient
    )
    return {"weight": weight}


class Private(nn.Module):
    def __init__(self, classes: int, depth: int, width: int, how: str) -> None:
        super().__init__()
        self.network = resnet(classes, depth, width)
        self.how = how
        for i, parameter in enumerate(self.network.parameters()):
            self.register_buffer(f"noise{i}", torch.randn(parameter.shape))

    def forward(self, images: Any, labels: Any) -> Any:
        if not self.training:
            return self.network(images)
        gradients, value = self._vmap(images, labels) if self.how == "vmap" else self._hooks(images, labels)
        norms = sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
        scale = (LONGEST / (norms + 1e-6)).clamp(max=1.0)
        total = value.detach()
        for i, (name, parameter) in enumerate(self.network.named_parameters()):
            noise = NOISE * LONGEST * getattr(self, f"noise{i}")
            gradient = (torch.einsum("n,n...->...", scale, gradients[name]) + noise) / len(images)
            total = total + ((parameter - parameter.detach()) * gradient.detach()).sum()
        return total

    def _vmap(self, images: Any, labels: Any) -> tuple[dict[str, Any], Any]:
        weights = {name: p.detach() for name, p in self.network.named_parameters()}

        def loss(weights: Any, image: Any, label: Any) -> Any:
            return functional.cross_entropy(functional_call(self.network, weights, (image[None],)), label[None])

        gradients, values = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(weights, images, labels)
        return gradients, values.mean()

    def _hooks(self, images: Any, labels: Any) -> tuple[dict[str, Any], Any]:
        """One forward and one backward pass give the input and the output gradient of every layer."""
        inputs: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        hooks = []
        for name, layer in self.network.named_modules():
            if isinstance(layer, (nn.Conv2d, nn.GroupNorm, nn.Linear)):

                def keep(_: Any, args: Any, output: Any, name: str = name) -> None:
                    inputs[name], outputs[name] = args[0].detach(), output

                hooks.append(layer.register_forward_hook(keep))
        try:
            value = functional.cross_entropy(self.network(images), labels, reduction="sum")
        finally:
            for hook in hooks:
                hook.remove()
        output_gradients = torch.autograd.grad(value, list(outputs.values()))
        gradients = {}
        for (name, layer_input), output_gradient in zip(inputs.items(), output_gradients, strict=True):
            layer = self.network.get_submodule(name)
            for part, gradient in per_example(layer, layer_input, output_gradient).items():
                gradients[f"{name}.{part}"] = gradient
        return gradients, value / len(images)
