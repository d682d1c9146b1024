"""A user's project: a file with models, inputs, losses and a whole step, and a module that it imports."""

from pathlib import Path

MODELS = '''
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn
from torch.nn import functional

from widths import WIDTH


class Net(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width, 5)

    def forward(self, x: Annotated[torch.Tensor, "4x3x8x8"]):
        return self.head(self.body(x))


class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()


class Scores(nn.Module):
    """Takes its arguments by name, and returns a dict."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)

    def forward(self, tokens, scale=None):
        hidden = self.table(tokens)
        return {"hidden": hidden, "scores": hidden.sum(-1) * (1 if scale is None else scale)}

    @staticmethod
    def example_inputs(batch):
        return {"tokens": torch.randint(0, 11, (batch, 7)), "scale": torch.randn(batch, 1)}


class Declared(Net):
    parity = "off: it rounds at random"


def make_net():
    return Net(6)


def labelled(n):
    return (torch.randn(n, 3, 8, 8),), torch.randint(0, 5, (n,))


def cross_entropy(output, target):
    return functional.cross_entropy(output, target)


built = Net()
optimizer = torch.optim.SGD(built.parameters(), lr=0.05, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
images, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))


def train_step():
    optimizer.zero_grad()
    loss = functional.cross_entropy(built(images), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(built.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    return loss.detach()


def infer_step(x: Annotated[torch.Tensor, "2x3x8x8"]):
    with torch.no_grad():
        return built(x).softmax(-1)


not_a_model = 5
'''


def write_project(folder: Path, width: int = 8) -> Path:
    """The file of the models."""
    (folder / "widths.py").write_text(f"WIDTH = {width}\n")
    path = folder / "nets.py"
    path.write_text(MODELS)
    return path
