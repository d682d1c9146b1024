"""Manners of a worker that is prepared beside others."""

import contextlib
import os
import sys
from collections.abc import Iterator

from tare.cases.case import Case

# Inductor's pool of processes, as many as there are cores unless it is told otherwise.
COMPILERS = "TORCHINDUCTOR_COMPILE_THREADS"


def limit_compilers(cores: int) -> None:
    """Here and not in what the worker inherits: there it would belong to the environment that a record names."""
    os.environ[COMPILERS] = str(cores)
    # It asks the variable only when it is imported.
    if config := sys.modules.get("torch._inductor.config"):
        config.compile_threads = cores  # type: ignore[attr-defined]


@contextlib.contextmanager
def one_core(wanted: bool) -> Iterator[None]:
    """Keeps torch to one thread meanwhile. Sixteen workers of sixteen threads each, on as many cores, wait for one
    another in every loop: to fill the weights of sixteen language models took minutes beside an H200, and takes
    seconds so."""
    if not wanted:
        # To set what is there already would still tell MKL to stop choosing for itself.
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def may_build_on_one_core(case: Case) -> bool:
    """What is compiled for a CPU knows the number of its threads from when it is built."""
    return case.device_type != "cpu"
