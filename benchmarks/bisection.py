"""The noise-aware search and plain bisection on simulated candidates with known culprits.

    python -m benchmarks.bisection [--games 100] [--json FILE]

Plain bisection compares the median of some runs of the middle candidate with the midpoint of the two ends. First
on a steady machine, with and without disturbed runs; then on machines that drift while they are measured, where
the search without its correction for drift stands beside it.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import numpy as np

from tare.stats import search as searching
from tare.stats.drift import Drift
from tare.stats.search import Search

CANDIDATES, STEP = 64, 0.05
NOISES = (0.01, 0.02, 0.03)
PLAIN_RUNS = (1, 5, 9, 15)
# One run in 25 is disturbed by this much, as on a shared machine.
DISTURBED, DISTURBANCE = 0.04, 0.2
DRIFT_NOISES = (0.01, 0.02)
MOST_RUNS = 400


def _walk(chance: random.Random) -> list[float]:
    path = [0.0]
    while len(path) < MOST_RUNS:
        path.append(path[-1] + chance.gauss(0, 0.01))
    return path


def _wave(chance: random.Random) -> list[float]:
    begin = chance.uniform(0, 2 * math.pi)
    return [0.05 * math.sin(begin + 2 * math.pi * i / 25) for i in range(MOST_RUNS)]


def _jump(chance: random.Random) -> list[float]:
    at = chance.randint(8, 25)
    return [0.08 * (i >= at) for i in range(MOST_RUNS)]


# How far off the machine is, as a logarithm, at each run.
DRIFTS: dict[str, Callable[[random.Random], list[float]]] = {
    "none": lambda _: [0.0] * MOST_RUNS,
    "warms up by 10 %": lambda _: [0.1 * (1 - math.exp(-i / 10)) for i in range(MOST_RUNS)],
    "slows by 0.4 % a run": lambda _: [0.004 * i for i in range(MOST_RUNS)],
    "walks by 1 % a run": _walk,
    "swings by 5 % every 25 runs": _wave,
    "jumps by 8 %": _jump,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for disturbed in (False, True):
        for noise in NOISES:
            rows.append(_row("tare", noise, disturbed, args.games, _ours))
            for runs in PLAIN_RUNS:
                rows.append(_row(f"plain, {runs} runs each", noise, disturbed, args.games, _plain(runs)))
    for noise in DRIFT_NOISES:
        for drift in DRIFTS:
            rows.append(_row("tare", noise, False, args.games, _ours, drift))
            rows.append(_row("tare, uncorrected", noise, False, args.games, _uncorrected, drift))
            rows.append(_row("plain, 5 runs each", noise, False, args.games, _plain(5), drift))
    result = {"candidates": CANDIDATES, "step": STEP, "games": args.games, "rows": rows}
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


Player = Callable[[Callable[[int], float]], tuple[int | None, int]]


def _row(
    method: str, noise: float, disturbed: bool, games: int, play: Player, drift: str = "none"
) -> dict[str, Any]:
    right, wrong, spent = 0, 0, []
    for seed in range(games):
        chance = random.Random(f"{seed} {noise}")
        culprit = chance.randint(1, CANDIDATES)
        off = iter(DRIFTS[drift](random.Random(f"{seed} {drift}")))

        def run(
            candidate: int, chance: random.Random = chance, culprit: int = culprit, off: Iterator[float] = off
        ) -> float:
            level = math.log(1 + STEP) if candidate >= culprit else 0.0
            extra = DISTURBANCE if disturbed and chance.random() < DISTURBED else 0.0
            return math.exp(level + next(off) + chance.gauss(0, noise) + extra)

        found, runs = play(run)
        right += found == culprit
        wrong += found not in (culprit, None)
        spent.append(runs)
    row: dict[str, Any] = {"method": method, "noise": noise, "disturbed": disturbed, "drift": drift}
    row["right"] = right / games
    # The others name no culprit: the ends do not differ enough, or the runs allowed did not settle it.
    row |= {"wrong": wrong / games, "runs": mean(spent)}
    shown = f"right {row['right']:.0%} wrong {row['wrong']:.0%} runs {row['runs']:.1f}"
    print(f"{method:20} noise {noise:.0%} disturbed {disturbed!s:5} drift {drift:28} {shown}", flush=True)
    return row


def _ours(run: Callable[[int], float]) -> tuple[int | None, int]:
    search = Search(CANDIDATES)
    while isinstance(step := search.next(), int):
        search.add(step, run(step))
    culprits = search.culprits(search.posterior()) if step == "found" else []
    # Two culprits where there is one are a wrong answer, and no candidate is number -1.
    return (culprits[0].culprit if len(culprits) == 1 else -1) if culprits else None, search.spent


def _uncorrected(run: Callable[[int], float]) -> tuple[int | None, int]:
    """Without the estimate of the drift, and without returning to the ends for it."""
    with patch.object(searching, "estimate_drift", _no_drift), patch.object(searching, "ANCHOR_EVERY", MOST_RUNS):
        return _ours(run)


def _no_drift(candidates: Sequence[int], values: Sequence[float]) -> Drift:  # noqa: ARG001
    return Drift(np.zeros(len(values)), 0.0)


def _plain(runs: int) -> Player:
    def play(run: Callable[[int], float]) -> tuple[int | None, int]:
        def figure(candidate: int) -> float:
            return median(math.log(run(candidate)) for _ in range(runs))

        middle = (figure(0) + figure(CANDIDATES)) / 2
        low, high, spent = 0, CANDIDATES, 2 * runs
        while high - low > 1:
            at = (low + high) // 2
            low, high = (low, at) if figure(at) > middle else (at, high)
            spent += runs
        return high, spent

    return play


if __name__ == "__main__":
    sys.exit(main())
