"""Whether the program that `tare emit` writes takes as long as the vendor rung, which runs the same plan.

    python -m benchmarks.emit mnist_cnn --mode train [--batch 64] [--size NAME=N] [--rounds 9] [--json FILE]

Rounds alternate between the two, each in a fresh process with the same threads. The ratio of a round is that of
neighbours, so that what else the machine does slows both: by the median of the blocks, and by their fifth
percentile, which a busy machine disturbs less.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.cases.options import make_options
from tare.cases.plan import make_plan
from tare.commands.emit import emit_project
from tare.execute.session import open_executor
from tare.rungs.native import toolchain
from tare.stats.intervals import median_interval

BUDGET_S = 3.0
STATISTICS = {"median": 0.5, "p5": 0.05}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("--mode", choices=["infer", "train"], default="infer")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = {name: [int(number)] for name, _, number in (text.partition("=") for text in args.size)}
    grid: dict[str, Any] = {"workload": [args.workload], "rung": ["vendor"], "device": ["cpu"]}
    grid |= {"mode": [args.mode]}
    grid |= {"smoke": True} if args.smoke else {}
    grid |= {"batch": [args.batch]} if args.batch else {}
    grid |= {"size": sizes} if sizes else {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        plan = make_plan({"grid": [{**grid, "threads": [args.threads]}]}, "the benchmark", args.workload)
        project = emit_project(plan, folder, False, "benchmarks.emit", lambda stage: print(stage, flush=True))
        program = build(folder)
        figures = compare(Case.parse(project.case), program, args.threads, args.rounds)
    for name in STATISTICS:
        low, middle, high = figures[f"ratio_by_{name}"]
        print(f"emitted / rung, by {name}: {middle:.3f} ({low:.3f} .. {high:.3f}) over {args.rounds} rounds")
    document = {"case": project.case, "parity": project.parity.status, "threads": args.threads, **figures}
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(document, indent=1) + "\n")


def build(folder: Path) -> Path:
    configure = ["cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DBLAS_LIBRARY={toolchain.blas()}"]
    for command in (configure, ["cmake", "--build", str(folder / "build")]):
        subprocess.run(command, check=True, capture_output=True)
    return folder / "build" / "step"


def compare(case: Case, program: Path, threads: int, rounds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"rounds": rounds}
    taken: dict[str, list[float]] = {f"{who}_{name}_ms": [] for who in ("rung", "emitted") for name in STATISTICS}
    options = make_options({"rounds": 1, "budget": BUDGET_S, "timeout": 3600.0})
    with open_executor(options.isolation) as executor:
        for index in range(rounds):
            round_ = executor.run_round(case, index, options, check=False)
            series = round_.find("pipelined")
            if series is None:
                raise SystemExit(f"the rung failed: {round_.failure}")
            steps_ms = [seconds * 1e3 for seconds in series.step_seconds()]
            emitted = emitted_times(program, max(len(steps_ms), 20), threads)
            for name, share in STATISTICS.items():
                taken[f"rung_{name}_ms"].append(quantile(steps_ms, share))
                taken[f"emitted_{name}_ms"].append(emitted[name])
            print({name: round(values[-1], 4) for name, values in taken.items()}, flush=True)
    for name in STATISTICS:
        pairs = zip(taken[f"emitted_{name}_ms"], taken[f"rung_{name}_ms"], strict=True)
        interval = median_interval([emitted / rung for emitted, rung in pairs])
        figures[f"ratio_by_{name}"] = [interval.low, interval.mid, interval.high]
    return figures | taken


def emitted_times(program: Path, blocks: int, threads: int) -> dict[str, float]:
    """Milliseconds of a step. The program has compared itself with the reference before it is timed."""
    command = [str(program), "--steps", str(blocks), "--threads", str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {name: float(number) for name, number in re.findall(r"(median|p5) (\S+) ms", done.stdout)}


def quantile(values: list[float], share: float) -> float:
    """As the emitted program has it: the nearest of the values."""
    return sorted(values)[round(share * (len(values) - 1))]


if __name__ == "__main__":
    main()
