"""MAML (Finn et al., 2017): a few steps of gradient descent on each task, differentiable from end to end."""

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from tare.workloads.networks.outside import outside

RATE = 0.1


def learner(ways: int, width: int, norm: bool) -> nn.Sequential:
    parts: list[Any] = []
    for i in range(3 if norm else 4):
        parts.append(nn.Conv2d(width if i else 1, width, 3, 1 if norm else 2, 0 if norm else 1))
        if norm:
            parts.append(nn.BatchNorm2d(width, track_running_stats=False))
        parts.append(nn.ReLU())
        if norm:
            parts.append(nn.MaxPool2d(2, 2))
    # 28 pixels become 1 with unpadded convolutions and pools, or 2 with strides.
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(width if norm else 4 * width, ways))


class Maml(nn.Module):
    """The scores of each task's queries after adapting to its examples.

    `kind` is "loop" or "vmap", with the suffix "-norm" for a learner with batch norm.
    """

    def __init__(self, ways: int, steps: int, width: int, kind: str) -> None:
        super().__init__()
        self.learner = learner(ways, width, kind.endswith("-norm"))
        self.steps = steps
        self.together = kind.startswith("vmap")

    def forward(self, images: Any, labels: Any, queries: Any) -> Any:
        if self.together:
            return outside(vmap(self._task, randomness="error"), images, labels, queries)
        return torch.stack(
            [self._loop(*task) for task in zip(images.unbind(), labels.unbind(), queries.unbind(), strict=True)]
        )

    def _task(self, images: Any, labels: Any, queries: Any) -> Any:
        """One task with torch.func: the inner gradient is a transformed function."""
        weights = dict(self.learner.named_parameters())

        def loss(weights: Any) -> Any:
            return functional.cross_entropy(functional_call(self.learner, weights, (images,)), labels)

        for _ in range(self.steps):
            gradients = grad(loss)(weights)
            weights = {name: weight - RATE * gradients[name] for name, weight in weights.items()}
        return functional_call(self.learner, weights, (queries,))

    def _loop(self, images: Any, labels: Any, queries: Any) -> Any:
        """One task with autograd, which records the inner gradient in training. Inference adapts too."""
        train = self.training
        with torch.inference_mode(False), torch.enable_grad():
            weights = dict(self.learner.named_parameters())
            if not train:
                weights = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
                images, labels, queries = images.clone(), labels.clone(), queries.clone()
            for _ in range(self.steps):
                loss = functional.cross_entropy(functional_call(self.learner, weights, (images,)), labels)
                gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=train)
                weights = {
                    name: weight - RATE * gradient
                    for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
                }
            scores = functional_call(self.learner, weights, (queries,))
        return scores if train else scores.detach()
