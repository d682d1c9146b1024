"""Change points by tare, asv and apache-otava on the same simulated series with known answers.

    python -m benchmarks.changepoints [--series 100] [--json FILE]

The other two are installed in their own virtual environments in a cache folder; tare does not
depend on them. A detector that cannot be installed is skipped, and the result says so.
"""

import argparse
import json
import math
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.report.formats.markdown import table as markdown_table

Numbers = NDArray[np.float64]
Detector = Callable[[list[list[float]]], tuple[list[list[int]], float]]

PACKAGES = ("asv==0.6.6", "apache-otava==0.8.0")
# A step counts as found if a change point lies this close to it.
NEAR = 10

# Runs in the other environment: series in, change points out. The settings are the tools' own defaults.
THEIRS = """
import json, sys, time
task = json.load(sys.stdin)
if task["tool"] == "asv":
    from asv.step_detect import detect_steps
    def find(series): return [left for left, *_ in detect_steps(series)][1:]
else:
    from otava.analysis import compute_change_points
    def find(series): return [point.index for point in compute_change_points(series)[0]]
began = time.perf_counter()
found = [[int(at) for at in find(series)] for series in task["series"]]
json.dump({"found": found, "seconds": time.perf_counter() - began}, sys.stdout)
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=100, help="series a cell of the table")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    detectors, missing = _detectors()
    cells = [cell for shape in SHAPES for cell in _cells(shape, args.series, detectors)]
    result = {
        "points": POINTS, "noise": NOISE, "step": STEP, "series": args.series, "near": NEAR,
        "packages": list(PACKAGES), "missing": missing, "cells": cells, "long": _long(detectors),
    }  # fmt: skip
    print(table(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


POINTS, NOISE, STEP = 100, 0.02, 0.05


def _autoregressive(chance: np.random.Generator, n: int, phi: float) -> Numbers:
    shocks = chance.normal(0, NOISE * math.sqrt(1 - phi**2), n)
    noise = np.empty(n)
    noise[0] = chance.normal(0, NOISE)
    for i in range(1, n):
        noise[i] = phi * noise[i - 1] + shocks[i]
    return noise


# What the noise of a series looks like; each has a standard deviation of about NOISE besides what its name says.
SHAPES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "Gaussian": lambda chance, n: chance.normal(0, NOISE, n),
    "heavy tails (t, 3)": lambda chance, n: NOISE * chance.standard_t(3, n) / math.sqrt(3),
    "skewed (log-normal)": lambda chance, n: NOISE * (np.exp(chance.normal(0, 1, n)) - 1.65) / 2.16,
    "5 % outliers": lambda c, n: c.normal(0, NOISE, n) + (c.random(n) < 0.05) * c.uniform(5, 20, n) * NOISE,
    "bimodal": lambda chance, n: chance.normal(0, 0.4 * NOISE, n) + (chance.random(n) < 0.25) * 2.1 * NOISE,
    "correlated 0.3": lambda chance, n: _autoregressive(chance, n, 0.3),
    "correlated 0.6": lambda chance, n: _autoregressive(chance, n, 0.6),
    "correlated 0.8": lambda chance, n: _autoregressive(chance, n, 0.8),
    "drift of 6 %": lambda chance, n: chance.normal(0, NOISE, n) + np.linspace(0, 3 * NOISE, n),
    "slow wave of ±6 %": lambda c, n: c.normal(0, NOISE, n) + 3 * NOISE * np.sin(2 * np.pi * np.arange(n) / n),
}


def _cells(shape: str, count: int, detectors: dict[str, Detector]) -> list[dict[str, Any]]:
    """False alarms on series without a step, and how often a step is found on those with one."""
    # From the name's bytes, so that a table can be made again: Python's own hash changes.
    chance = np.random.default_rng(list(shape.encode()))
    flat, stepped, places = [], [], []
    for _ in range(count):
        flat.append(np.exp(SHAPES[shape](chance, POINTS)).tolist())
        at = int(chance.integers(POINTS // 4, 3 * POINTS // 4))
        jump = np.where(np.arange(POINTS) >= at, math.log(1 + STEP), 0.0)
        stepped.append(np.exp(SHAPES[shape](chance, POINTS) + jump).tolist())
        places.append(at)
    cells = []
    for name, detect in detectors.items():
        alarms, _ = detect(flat)
        found, seconds = detect(stepped)
        hits = [any(abs(at - place) <= NEAR for at in each) for each, place in zip(found, places, strict=True)]
        extra = [sum(abs(at - place) > NEAR for at in each) for each, place in zip(found, places, strict=True)]
        cells.append(
            {
                "noise": shape,
                "detector": name,
                "false_alarms": sum(map(bool, alarms)) / count,
                "found": sum(hits) / count,
                "wrong_steps": sum(extra) / count,
                "seconds": seconds / count,
            }
        )
        print(f"{shape:22} {name:14} {cells[-1]}", file=sys.stderr)
    return cells


def _long(detectors: dict[str, Detector]) -> dict[str, float]:
    """Seconds for a series of 10,000 points (asv's and otava's for 1,000: longer ones take minutes)."""
    chance = np.random.default_rng(1)
    took = {}
    for name, detect in detectors.items():
        n = 10_000 if name == "tare" else 1000
        values = np.exp(chance.normal(0, NOISE, n) + np.where(np.arange(n) >= n // 2, math.log(1 + STEP), 0.0))
        took[f"{name}, {n} points"] = round(detect([values.tolist()])[1], 3)
    return took


def _ours(series: list[list[float]]) -> tuple[list[list[int]], float]:
    from tare.stats.changepoints import find_change_points

    began = time.perf_counter()
    found = [[change.position for change in find_change_points(each).change_points] for each in series]
    return found, time.perf_counter() - began


def _day_over_day(series: list[list[float]]) -> tuple[list[list[int]], float]:
    """The plain rule: 7 % more than the day before."""
    began = time.perf_counter()
    found = [[i for i in range(1, len(each)) if abs(each[i] / each[i - 1] - 1) > 0.07] for each in series]
    return found, time.perf_counter() - began


def _detectors() -> tuple[dict[str, Detector], list[str]]:
    found: dict[str, Detector] = {"tare": _ours, "7 % rule": _day_over_day}
    missing = []
    for package in PACKAGES:
        tool = package.partition("==")[0].removeprefix("apache-")
        try:
            found[tool] = _theirs(tool, _environment(package))
        except (subprocess.CalledProcessError, OSError) as error:
            missing.append(f"{package} cannot be installed here: {error}")
            print(missing[-1], file=sys.stderr)
    return found, missing


def _environment(package: str) -> str:
    """The interpreter of an environment that holds the package, made on first use and kept."""
    from platformdirs import user_cache_path

    folder = user_cache_path("tare") / "benchmarks" / package.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing {package} in {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", package], check=True, timeout=900)
        (folder / "ready").touch()
    return str(python)


def _theirs(tool: str, python: str) -> Detector:
    def detect(series: list[list[float]]) -> tuple[list[list[int]], float]:
        task = json.dumps({"tool": tool, "series": series})
        done = subprocess.run([python, "-c", THEIRS], input=task, capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer["found"], answer["seconds"]

    # Fails here, and not in the middle, where the tool does not run.
    detect([[1.0 + 0.001 * (i % 3) for i in range(20)]])
    return detect


def table(result: dict[str, Any]) -> str:
    """The result as Markdown: false alarms and steps found, a column a detector."""
    names = list(dict.fromkeys(cell["detector"] for cell in result["cells"]))
    heads = ["noise", *(head for name in names for head in (f"{name}: false alarms", "found"))]
    lines = []
    for shape in dict.fromkeys(cell["noise"] for cell in result["cells"]):
        row = {cell["detector"]: cell for cell in result["cells"] if cell["noise"] == shape}
        shares = [row[name][share] for name in names for share in ("false_alarms", "found")]
        lines.append([shape, *(f"{share:.0%}" for share in shares)])
    return markdown_table(heads, lines, words=heads[:1])


if __name__ == "__main__":
    sys.exit(main())
