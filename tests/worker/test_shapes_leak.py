"""Tensors that torch's profiler keeps alive for their shapes, and those that it lets go."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import psutil
import pytest
import torch
from torch.func import grad, vmap

from tare.worker.profiling import shapes_leak

MIB = 2**20


def wrapped(x: Any) -> None:
    vmap(grad(lambda row: (row * 2).sin().sum()))(x)


def plain(x: Any) -> None:
    (x * 2).cos()


def is_held(function: Callable[[Any], None]) -> bool:
    """By the memory of this process: 64 MiB a tensor, of which a step makes several."""
    x = torch.randn(16 * MIB // 64, 64)
    resident = psutil.Process().memory_info

    def step() -> None:
        function(x)

    for _ in range(4):
        # Until what the C library keeps for itself no longer grows.
        step()
    return shapes_leak(step, lambda: None, lambda: int(resident().rss), 32 * MIB)


@pytest.mark.full
@pytest.mark.parametrize(("function", "held"), [(wrapped, True), (plain, False)])
def test_what_torch_func_wraps_is_held(function: Callable[[Any], None], held: bool) -> None:
    # A new process has no memory that earlier tests have freed: a tensor that is put there is not seen.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        assert fresh.submit(is_held, function).result() == held


@pytest.mark.full
def test_a_leak_is_no_fault_of_the_profiler() -> None:
    kept: list[int] = []
    assert not shapes_leak(lambda: kept.append(4096), lambda: None, lambda: sum(kept))
