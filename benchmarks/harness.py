"""What tare's own machinery costs: a fresh process a case, the sampler, the command line's start.

    python -m benchmarks.harness [--json FILE]

Ratios to something measured in the same run, interleaved, with the interval of their median. The exit code is 1 if
a promise is broken for certain: on a machine whose noise is greater than what is sought, that is said instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tare.cases.case import Case
from tare.execute.launch import ForkLauncher, Launcher, SpawnLauncher
from tare.execute.supervise import Watchman, supervise
from tare.measure.clock import WallClock
from tare.measure.sampler import Limits, sample
from tare.protocol.jobs import RoundJob
from tare.protocol.messages import Message, Stage
from tare.records.record import Series
from tare.stats.intervals import median_interval
from tare.workloads import get_workload

REPEATS = 7
TURNS = 40
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
    promises = {
        "fork_over_import": PROCESS_PROMISE,
        "sampler_overhead": SAMPLER_PROMISE,
        "help_s": HELP_PROMISE_S,
    }
    found["promises"] = {name: kept(found[name], promise) for name, promise in promises.items()}
    for name, promise in promises.items():
        low, value, high = found[name]
        range_ = f"({low:.4f} .. {high:.4f})"
        print(f"{name:20} {value:8.4f} {range_:22} promised under {promise:g}: {found['promises'][name]}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if "BROKEN" in found["promises"].values() else 0


def kept(interval: list[float], promise: float) -> str:
    low, _, high = interval
    return "ok" if high < promise else "BROKEN" if low >= promise else "too noisy to tell"


def spread(values: list[float]) -> list[float]:
    """The median of turns, between the bounds of its interval."""
    found = median_interval(values)
    return [found.low, found.mid, found.high]


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
    return {
        "import_torch_s": median(import_s),
        "fork_s": median(fork_s),
        "spawn_s": median(spawn_s),
        "fork_over_import": spread([ours / theirs for ours, theirs in zip(fork_s, import_s, strict=True)]),
        "spawn_over_import": spread([ours / theirs for ours, theirs in zip(spawn_s, import_s, strict=True)]),
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


def sampler_cost() -> dict[str, Any]:
    """A fixed piece of work of about 20 microseconds, in a bare loop before and after and through the sampler
    between, in turns, by blocks of as many steps: longer ones would hold more of what else goes on here. Of each
    the quickest tenth: that only adds, and to both."""
    step = _work(STEP_S)
    ratios = []
    before = _bare(step, *_blocks(_sampled(step)))
    for _ in range(TURNS):
        pipelined = _sampled(step)
        after = _bare(step, *_blocks(pipelined))
        ratios.append(2 * _quick(pipelined.step_seconds()) / (before + after) - 1)
        before = after
    return {"sampler_overhead": spread(ratios), "step_s": before}


def _sampled(step: Callable[[], int]) -> Series:
    series: list[Series] = []
    limits = Limits(budget_s=0.2, width=0.001)
    sample(step, WallClock(lambda: None, overlaps=False), limits, series.append)
    return next(one for one in series if one.kind == "pipelined")


def _blocks(series: Series) -> tuple[int, int]:
    """How many blocks of how many steps."""
    return len(series.wall_ns), int(median(series.steps))


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


def _bare(step: Callable[[], int], blocks: int = 60, steps: int = 50) -> float:
    """What a plain loop takes a step, over blocks."""
    taken = []
    for _ in range(blocks):
        began = time.perf_counter_ns()
        for _ in range(steps):
            step()
        taken.append((time.perf_counter_ns() - began) / steps)
    return _quick(taken) / 1e9


def _quick(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 10]


def help_seconds() -> list[float]:
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tare", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return spread(taken)


if __name__ == "__main__":
    sys.exit(main())
