"""Whether the program that `tare emit` writes takes as long as the vendor rung, which runs the same plan.

    python -m benchmarks.emit mnist_cnn --mode train [--batch 64] [--size NAME=N] [--rounds 9] [--json FILE]

Rounds alternate between the two, each in a fresh process with the same threads. A round's figure is the median of
its blocks; the ratio of a round is that of neighbours, so that what else the machine does slows both.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tare.cases.case import Case
from tare.cases.options import make_options
from tare.cases.plan import make_plan
from tare.commands.emit import emit_project
from tare.execute.session import open_executor
from tare.rungs.native import toolchain
from tare.stats.intervals import median_interval

BUDGET_S = 3.0


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
    grid = {"workload": [args.workload], "rung": ["vendor"], "device": ["cpu"], "mode": [args.mode]}
    grid |= {"smoke": True} if args.smoke else {}
    grid |= {"batch": [args.batch]} if args.batch else {}
    grid |= {"size": sizes} if sizes else {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        plan = make_plan({"grid": [{**grid, "threads": [args.threads]}]}, "the benchmark", args.workload)
        project = emit_project(plan, folder, False, "benchmarks.emit", lambda stage: print(stage, flush=True))
        program = build(folder)
        figures = compare(Case.parse(project.case), program, args.threads, args.rounds)
    low, middle, high = figures["ratio"]
    print(f"emitted / rung: {middle:.3f} ({low:.3f} .. {high:.3f}) over {args.rounds} rounds, {project.case}")
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
    rung_ms: list[float] = []
    emitted_ms: list[float] = []
    options = make_options({"rounds": 1, "budget": BUDGET_S, "timeout": 3600.0})
    with open_executor(options.isolation) as executor:
        for index in range(rounds):
            round_ = executor.run_round(case, index, options, check=False)
            series = round_.find("pipelined")
            if series is None:
                raise SystemExit(f"the rung failed: {round_.failure}")
            rung_ms.append(median(series.step_seconds()) * 1e3)
            blocks = max(len(series.wall_ns), 10)
            emitted_ms.append(emitted_median(program, blocks, threads))
            print(f"round {index}: rung {rung_ms[-1]:.4g} ms, emitted {emitted_ms[-1]:.4g} ms", flush=True)
    ratios = [emitted / rung for emitted, rung in zip(emitted_ms, rung_ms, strict=True)]
    interval = median_interval(ratios)
    return {
        "rounds": rounds,
        "rung_ms": rung_ms,
        "emitted_ms": emitted_ms,
        "ratio": [interval.low, interval.mid, interval.high],
    }


def emitted_median(program: Path, blocks: int, threads: int) -> float:
    """Milliseconds of a step. The program has compared itself with the reference before it is timed."""
    command = [str(program), "--steps", str(blocks), "--threads", str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    times = re.search(r"step: median (\S+) ms", done.stdout)
    assert times, done.stdout
    return float(times[1])


if __name__ == "__main__":
    main()
