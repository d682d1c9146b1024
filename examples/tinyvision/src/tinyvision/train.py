"""A training loop of one's own: an optimizer, a schedule, and clipped gradients."""

import torch
from torch import Tensor, nn

import tare

from .data import batch
from .model import TinyNet, loss

model = TinyNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
(images,), labels = batch()


def train_step() -> Tensor:
    """One whole step, as `tare run src/tinyvision/train.py::train_step` measures it."""
    optimizer.zero_grad()
    with tare.stopwatch("forward"):
        value = loss(model(images), labels)
    with tare.stopwatch("backward"):
        value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return value.detach()
