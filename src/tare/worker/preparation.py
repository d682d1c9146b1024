"""Preparing a case: its program, and the caches and limits of compilers."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tare.cases.case import Case
from tare.rungs import get_rung
from tare.rungs.base import Program
from tare.rungs.torch.numerics import pin_flags
from tare.workloads import Workload, get_workload

# The size of Inductor's pool of processes; by default there are as many as cores.
COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"


@contextlib.contextmanager
def open_program(case: Case, cache: str | None = None, learning_rate: float | None = None) -> Iterator[Program]:
    """The program of a case, with its flags pinned."""
    pin_flags(case)
    use_cache(cache)
    program = get_rung(case.rung).prepare(with_rate(get_workload(case.workload), learning_rate), case)
    try:
        yield program
    finally:
        program.close()


def with_rate(workload: Workload, learning_rate: float | None) -> Workload:
    """The workload with another learning rate, if there is one."""
    return workload if learning_rate is None else dataclasses.replace(workload, learning_rate=learning_rate)


def use_cache(folder: str | None) -> Literal["cold", "warm", "none"]:
    """Points the compilers at the cache folder of a case, and returns whether it has content."""
    if folder is None:
        return "none"
    path = Path(folder)
    warm = path.exists() and any(path.iterdir())
    path.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = str(path / "triton")
    return "warm" if warm else "cold"


def limit_compilers(processes: int | None) -> None:
    """Set here rather than inherited: an inherited variable would be part of the environment that a record
    names."""
    if processes is None:
        return
    os.environ[COMPILE_THREADS] = str(processes)
    # Inductor reads the variable when it is imported.
    if config := sys.modules.get("torch._inductor.config"):
        config.compile_threads = processes  # type: ignore[attr-defined]


@contextlib.contextmanager
def one_core(wanted: bool) -> Iterator[None]:
    """Limits torch to one thread. Sixteen workers with sixteen threads each on sixteen cores wait for one
    another in every loop: filling the weights of sixteen language models took minutes, and takes seconds with
    one thread."""
    if not wanted:
        # Even setting the current number would stop MKL from choosing its own.
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
