"""Programs that are left behind do not disturb a trace in another thread."""

import gc
from typing import Any

import torch
from own_thread import own_thread
from torch import nn


class Left:
    """A program that nobody closed: inference mode is on, and a ring of references keeps it until collected."""

    def __init__(self) -> None:
        self.mode = torch.inference_mode()
        self.mode.__enter__()
        self.ring = self


class Collecting(nn.Module):  # type: ignore[misc]
    """Sizes that are traced are kept aside until the operator takes them, which it does only if it is traced."""

    def forward(self, x: Any) -> Any:
        gc.collect()
        size = x.size(0)
        return x.split([size, 0])[0] + x.split([size, 0])[0]


def test_a_trace_is_whole_after_a_program_was_left_behind() -> None:
    with own_thread() as thread:
        thread.submit(lambda: Left() and None).result()
    with own_thread() as thread:
        made = thread.submit(torch.jit.trace, Collecting(), torch.ones(2)).result()
    assert made(torch.ones(2)).tolist() == [2.0, 2.0]
