"""What tare's own machinery costs: a fresh process a case, the sampler, the command line's start.

    python -m benchmarks.harness [--json FILE]

Ratios to something measured in the same run, interleaved. The exit code is 1 if a promise is broken.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tare.cases.case import Case
from tare.execute.jobs import RoundJob
from tare.execute.launch import ForkLauncher, Launcher, SpawnLauncher
from tare.execute.protocol import Message, Stage
from tare.execute.supervise import Watchman, supervise
from tare.measure.clock import WallClock
from tare.measure.sampler import Limits, sample
from tare.records.record import Series
from tare.workloads import get_workload

REPEATS = 7
PROCESS_PROMISE = 0.25
SAMPLER_PROMISE = 0.02
HELP_PROMISE_S = 0.4
STEP_S = 20e-6


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TARE_HOME"] = home
        found = {**process_costs(), **sampler_cost(), "help_s": help_seconds()}
    found["promises"] = {
        "fork_over_import": (found["fork_over_import"], PROCESS_PROMISE),
        "sampler_overhead": (found["sampler_overhead"], SAMPLER_PROMISE),
        "help_s": (found["help_s"], HELP_PROMISE_S),
    }
    for name, (value, promise) in found["promises"].items():
        print(f"{name:20} {value:8.4f}   promised under {promise:g}   {'ok' if value < promise else 'BROKEN'}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(value < promise for value, promise in found["promises"].values()) else 1


def process_costs() -> dict[str, Any]:
    """Seconds around the measuring itself (start to build, last word to exit), against importing torch."""
    fork = ForkLauncher()
    fork_s, spawn_s, import_s = [], [], []
    try:
        overhead(fork)
        for _ in range(REPEATS):
            import_s.append(import_torch())
            fork_s.append(overhead(fork))
            spawn_s.append(overhead(SpawnLauncher()))
    finally:
        fork.close()
    reference = median(import_s)
    return {
        "import_torch_s": reference,
        "fork_s": median(fork_s),
        "spawn_s": median(spawn_s),
        "fork_over_import": median(fork_s) / reference,
        "spawn_over_import": median(spawn_s) / reference,
    }


def overhead(launcher: Launcher) -> float:
    """All of a real round's time that is not building, preparing, sampling or auditing the case."""
    case = Case(workload="mlp", rung="eager", batch=8, sizes=get_workload("mlp").defaults)
    stages: list[float] = []

    def note(message: Message) -> None:
        if isinstance(message, Stage) and message.name in ("build", "audit"):
            stages.append(time.perf_counter())

    began = time.perf_counter()
    supervise(launcher.launch(RoundJob(case=case, budget_s=0.1, width=0.5)), Watchman(120, on_message=note))
    return time.perf_counter() - began - (stages[-1] - stages[0])


def import_torch() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - began


def sampler_cost() -> dict[str, float]:
    """A fixed piece of work of about 20 microseconds, in a bare loop and through the sampler, in turns."""
    step = _work(STEP_S)
    ratios = []
    for _ in range(REPEATS):
        bare = _bare(step)
        kept: list[Series] = []
        limits = Limits(budget_s=0.4, width=0.001)
        sample(step, WallClock(lambda: None, overlaps=False), limits, kept.append)
        pipelined = next(series for series in kept if series.kind == "pipelined")
        ratios.append(median(pipelined.step_seconds()) / bare - 1)
    return {"sampler_overhead": median(ratios), "step_s": _bare(step)}


def _work(seconds: float) -> Callable[[], int]:
    """A step of fixed work: a spin to a deadline would swallow the very overhead that is sought."""
    loops = 100
    while True:
        numbers = range(loops)

        def step(numbers: range = numbers) -> int:
            return sum(numbers)

        if _bare(step) >= seconds:
            return step
        loops = int(loops * 1.1) + 1


def _bare(step: Callable[[], int]) -> float:
    """The median over blocks of what a plain loop takes a step."""
    blocks = []
    for _ in range(60):
        began = time.perf_counter_ns()
        for _ in range(50):
            step()
        blocks.append((time.perf_counter_ns() - began) / 50)
    return median(blocks) / 1e9


def help_seconds() -> float:
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tare", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return median(taken)


if __name__ == "__main__":
    sys.exit(main())
