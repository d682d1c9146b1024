"""The overhead of tare itself: a fresh process for each case, the sampler, the start of the command line.

    python -m benchmarks.harness [--json FILE]

Each figure is a ratio to something measured in the same run, interleaved with it, with the confidence interval of
the median. The exit code is 1 only if a whole interval is above its limit; where the machine is too noisy to tell,
the output says so.
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
from tare.execute.supervise import Supervision, supervise
from tare.measure.clock import WallClock
from tare.measure.sampler import SamplingLimits, StepTimer, sample
from tare.protocol.jobs import RoundJob
from tare.protocol.messages import Message, Stage
from tare.records.record import Series
from tare.stats.intervals import median_interval
from tare.workloads import get_workload

REPEATS = 7
TURNS = 40
LIMITS = {"fork_over_import": 0.25, "sampler_overhead": 0.02, "help_s": 0.4}
STEP_S = 20e-6


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["TARE_HOME"] = home
        figures: dict[str, Any] = {**process_overhead(), **sampler_overhead(), "help_s": help_seconds()}
    figures["verdicts"] = {name: verdict(figures[name], limit) for name, limit in LIMITS.items()}
    for name, limit in LIMITS.items():
        low, value, high = figures[name]
        interval = f"({low:.4f} .. {high:.4f})"
        print(f"{name:20} {value:8.4f} {interval:22} limit {limit:g}: {figures['verdicts'][name]}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if "EXCEEDED" in figures["verdicts"].values() else 0


def verdict(interval: list[float], limit: float) -> str:
    low, _, high = interval
    return "ok" if high < limit else "EXCEEDED" if low >= limit else "too noisy to tell"


def interval_of(values: list[float]) -> list[float]:
    """The median, between the bounds of its confidence interval."""
    interval = median_interval(values)
    return [interval.low, interval.mid, interval.high]


def process_overhead() -> dict[str, Any]:
    """The seconds of a worker before the build stage and after its last message, against importing torch."""
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
        "fork_over_import": interval_of([ours / theirs for ours, theirs in zip(fork_s, import_s, strict=True)]),
        "spawn_over_import": interval_of([ours / theirs for ours, theirs in zip(spawn_s, import_s, strict=True)]),
    }


def overhead(launcher: Launcher) -> float:
    """The time of a real round without building, preparing, sampling and auditing."""
    case = Case(workload="mlp", rung="eager", batch=8, sizes=get_workload("mlp").defaults)
    stages: list[float] = []

    def on_message(message: Message) -> None:
        if isinstance(message, Stage) and message.name in ("build", "audit"):
            stages.append(time.perf_counter())

    began = time.perf_counter()
    supervise(
        launcher.launch(RoundJob(case=case, budget_s=0.1, width=0.5)), Supervision(120, on_message=on_message)
    )
    return time.perf_counter() - began - (stages[-1] - stages[0])


def import_torch() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - began


def sampler_overhead() -> dict[str, Any]:
    """Fixed work of about 20 microseconds a step: in a bare loop, through the sampler, in a bare loop, and so on,
    in blocks of equally many steps. The first decile of each is compared, because other load on the machine only
    adds time."""
    step = _work(STEP_S)
    ratios = []
    before = _bare(step, *_blocks(_sampled(step)))
    for _ in range(TURNS):
        pipelined = _sampled(step)
        after = _bare(step, *_blocks(pipelined))
        ratios.append(2 * _first_decile(pipelined.step_seconds()) / (before + after) - 1)
        before = after
    return {"sampler_overhead": interval_of(ratios), "step_s": before}


def _sampled(step: Callable[[], int]) -> Series:
    series: list[Series] = []
    limits = SamplingLimits(budget_s=0.2, width=0.001)
    sample(StepTimer(step, WallClock(lambda: None, overlaps=False)), limits, series.append)
    return next(each for each in series if each.kind == "pipelined")


def _blocks(series: Series) -> tuple[int, int]:
    """The number of blocks, and of steps in each."""
    return len(series.wall_ns), int(median(series.steps))


def _work(seconds: float) -> Callable[[], int]:
    """A step of fixed work. A spin until a deadline would hide the overhead that is measured."""
    loops = 100
    while True:
        numbers = range(loops)

        def step(numbers: range = numbers) -> int:
            return sum(numbers)

        if _bare(step) >= seconds:
            return step
        loops = int(loops * 1.1) + 1


def _bare(step: Callable[[], int], blocks: int = 60, steps: int = 50) -> float:
    """Seconds a step in a plain loop."""
    taken = []
    for _ in range(blocks):
        began = time.perf_counter_ns()
        for _ in range(steps):
            step()
        taken.append((time.perf_counter_ns() - began) / steps)
    return _first_decile(taken) / 1e9


def _first_decile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 10]


def help_seconds() -> list[float]:
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tare", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return interval_of(taken)


if __name__ == "__main__":
    sys.exit(main())
