"""A program that was not closed does not disturb a trace in another thread."""

import gc
from typing import Any

import torch
from own_thread import own_thread
from torch import nn


class Unclosed:
    """A program in inference mode that a reference cycle keeps alive until it is collected."""

    def __init__(self) -> None:
        self.mode = torch.inference_mode()
        self.mode.__enter__()
        self.cycle = self


class CollectsInForward(nn.Module):  # type: ignore[misc]
    """The tracer holds a traced size until an operator uses it, so a collection in between can disturb it."""

    def forward(self, x: Any) -> Any:
        gc.collect()
        size = x.size(0)
        return x.split([size, 0])[0] + x.split([size, 0])[0]


def test_trace_after_an_unclosed_program() -> None:
    with own_thread() as thread:
        thread.submit(lambda: Unclosed() and None).result()
    with own_thread() as thread:
        traced = thread.submit(torch.jit.trace, CollectsInForward(), torch.ones(2)).result()
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]
