"""The compilers' caches: each case has a folder of its own, so that cold and warm are what they say."""

import os
from pathlib import Path
from typing import Literal

from tare.cases.case import Case


def use_cache(folder: str | None) -> Literal["cold", "warm", "none"]:
    """Points the compilers at a case's folder, and says what they will find there."""
    if folder is None:
        return "none"
    path = Path(folder)
    warm = path.exists() and any(path.iterdir())
    path.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = str(path / "triton")
    return "warm" if warm else "cold"


def fill_cache(case: Case, folder: str) -> None:
    """Prepares a case up to its first step. Other cases are prepared beside it, so what Triton finds by timing a
    kernel's variants is not kept: the measured process times them anew, in seconds."""
    from torch._inductor import config

    from tare.measure.devices import make_clock
    from tare.rungs import get_rung
    from tare.rungs.torch.numerics import pin_flags
    from tare.worker.cpu_limits import may_build_on_one_core, one_core
    from tare.workloads import get_workload

    pin_flags(case)
    use_cache(folder)
    config.autotune_local_cache = False
    with one_core(may_build_on_one_core(case)):
        program = get_rung(case.rung).prepare(get_workload(case.workload), case)
    make_clock(program.device).time(program.step, 1)
    program.close()
