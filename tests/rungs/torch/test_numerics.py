"""Flags that decide how torch computes: a step that changes them is found, also one that restores them."""

from collections.abc import Callable, Iterator

import pytest
import torch

from tare.rungs.torch.numerics import changed_flags, flags_changed_within, read_flags


def borrow_tf32() -> None:
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        pass
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = False


def borrow_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(torch.float32)


def borrow_threads() -> None:
    torch.set_num_threads(1)
    torch.set_num_threads(2)


def compute_with_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        torch.ones(2, 2) @ torch.ones(2, 2)


BORROWERS: dict[Callable[[], None], dict[str, str]] = {
    borrow_tf32: {"cudnn.tf32": "true", "tf32": "true"},
    borrow_dtype: {"default_dtype": "float64"},
    borrow_threads: {"threads": "1"},
    compute_with_autocast: {},
}


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    threads, matmul, cudnn = torch.get_num_threads(), torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    torch.set_num_threads(2)
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    yield
    torch.set_num_threads(threads)
    matmul.allow_tf32, cudnn.allow_tf32 = before


@pytest.mark.parametrize("step", BORROWERS, ids=lambda step: step.__name__)
def test_a_flag_that_a_step_changes_and_restores_is_found(step: Callable[[], None]) -> None:
    before = read_flags()
    assert flags_changed_within(step, before) == BORROWERS[step]
    assert changed_flags(before) == {}
