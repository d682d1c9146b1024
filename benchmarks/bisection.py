"""The noise-aware search and plain bisection on simulated candidates with known culprits, or with none.

    python -m benchmarks.bisection [--games 60] [--accused 300] [--jobs 2] [--json results/guard/bisection.json]

Plain bisection compares the median of some runs of the middle candidate with the midpoint of the two ends. First
on a steady machine; then on machines that drift while they are measured, where the search without its correction
for drift stands beside it; then under every noise of benchmarks.noise, with a culprit and with identical
candidates. It prints the tables of docs/bisect.md. The exit code is 1 if a promise is broken.
"""

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.noise import KINDS, NOISE, series
from tare.report.formats.markdown import table as markdown_table
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
# The promises: searches over identical candidates that accuse one, and those that name the culprit in Gaussian
# noise.
FALSE_ACCUSATIONS, FOUND = 0.01, 0.97


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
    "stands still": lambda _: [0.0] * MOST_RUNS,
    "warms up by 10 %": lambda _: [0.1 * (1 - math.exp(-i / 10)) for i in range(MOST_RUNS)],
    "slows by 0.4 % a run": lambda _: [0.004 * i for i in range(MOST_RUNS)],
    "walks by 1 % a run": _walk,
    "swings by 5 % every 25 runs": _wave,
    "jumps by 8 %": _jump,
}
STEADY = "stands still"

Player = Callable[[Callable[[int], float], int], tuple[int | None, int]]


def drift_row(method: str, noise: float, disturbed: bool, drift: str, games: int) -> dict[str, Any]:
    """Searches on a machine with Gaussian noise that drifts."""
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

        named, runs = PLAYERS[method](run, seed)
        right += named == culprit
        wrong += named not in (culprit, None)
        spent.append(runs)
    # The others name no culprit: the ends do not differ enough, or the runs allowed did not settle it.
    return {
        "method": method,
        "noise": noise,
        "disturbed": disturbed,
        "drift": drift,
        "right": right / games,
        "wrong": wrong / games,
        "runs": mean(spent),
    }


def kind_row(kind: str, games: int, accused: int) -> dict[str, Any]:
    """Searches under one noise of benchmarks.noise, with a culprit and with identical candidates."""
    searches = [_search_under(kind, seed, STEP) for seed in range(games)]
    identical = [_search_under(kind, seed, 0.0) for seed in range(accused)]
    accusations = sum(named is not None for named, _, _ in identical)
    return {
        "noise": kind,
        "searches": games,
        "right": sum(named == culprit for named, culprit, _ in searches) / games,
        "wrong": sum(named not in (None, culprit) for named, culprit, _ in searches) / games,
        "runs": mean(runs for _, _, runs in searches),
        "identical": accused,
        "accusations": accusations,
        "accused_share": accusations / accused,
        "runs_of_identical": mean(runs for _, _, runs in identical),
    }


def accusations(kind: str, searches: int) -> int:
    """Searches over identical candidates that name a culprit."""
    return sum(_search_under(kind, seed, 0.0)[0] is not None for seed in range(searches))


def _search_under(kind: str, seed: int, step: float) -> tuple[int | None, int, int]:
    """The candidate that a search names, the culprit, and the runs."""
    rng = np.random.default_rng([list(KINDS).index(kind), seed, round(1000 * step)])
    culprit = int(rng.integers(1, CANDIDATES + 1))
    offsets = iter(series(kind, rng, MOST_RUNS, NOISE))

    def run(candidate: int) -> float:
        return math.exp(next(offsets) + (math.log1p(step) if candidate >= culprit else 0.0))

    named, runs = _ours(run, seed)
    return named, culprit, runs


def _ours(run: Callable[[int], float], seed: int) -> tuple[int | None, int]:
    search = Search(CANDIDATES, seed=seed)
    while isinstance(step := search.next(), int):
        search.add(step, run(step))
    culprits = search.culprits(search.posterior()) if step == "found" else []
    # Two culprits where there is one are a wrong answer, and no candidate is number -1.
    return (culprits[0].culprit if len(culprits) == 1 else -1) if culprits else None, search.spent


def _uncorrected(run: Callable[[int], float], seed: int) -> tuple[int | None, int]:
    """Without the estimate of the drift, and without returning to the ends for it."""
    with (
        patch.object(searching, "estimate_drift", _no_drift),
        patch.object(searching, "RUNS_BETWEEN_ENDS", MOST_RUNS),
    ):
        return _ours(run, seed)


def _no_drift(candidates: Sequence[int], values: Sequence[float]) -> Drift:  # noqa: ARG001
    return Drift(np.zeros(len(values)), 0.0)


def _plain(runs: int) -> Player:
    def play(run: Callable[[int], float], seed: int) -> tuple[int | None, int]:  # noqa: ARG001
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


PLAYERS: dict[str, Player] = {
    "tare": _ours,
    "uncorrected": _uncorrected,
    **{f"plain, {runs} runs each": _plain(runs) for runs in PLAIN_RUNS},
}
DRIFT_METHODS = ("tare", "uncorrected", "plain, 5 runs each")


def noise_table(rows: list[dict[str, Any]]) -> str:
    """Right searches and runs by method and noise, on a machine that stands still."""
    heads = ["method", *(head for noise in NOISES for head in (f"{_share(noise)}: right", "runs"))]
    lines = []
    for disturbed in (False, True):
        for method in PLAYERS:
            cells = [
                cell
                for row in rows
                if (row["method"], row["disturbed"], row["drift"]) == (method, disturbed, STEADY)
                for cell in (f"{row['right']:.0%}", f"{row['runs']:.0f}")
            ]
            if len(cells) == 2 * len(NOISES):
                lines.append([method + ", one run in 25 disturbed by 20 %" * disturbed, *cells])
    return markdown_table(heads, lines, words=heads[:1])


def drift_table(rows: list[dict[str, Any]]) -> str:
    heads = ["while it is measured, the machine"]
    for noise in DRIFT_NOISES:
        heads += [f"{_share(noise)}: tare right", "runs", "uncorrected", "plain, 5 runs"]
    lines = []
    by_key = {(row["method"], row["noise"], row["drift"]): row for row in rows if not row["disturbed"]}
    for drift in DRIFTS:
        cells = [drift]
        for noise in DRIFT_NOISES:
            ours, *others = (by_key[method, noise, drift] for method in DRIFT_METHODS)
            cells += [f"{ours['right']:.0%}", f"{ours['runs']:.0f}", *(f"{row['right']:.0%}" for row in others)]
        lines.append(cells)
    return markdown_table(heads, lines, words=heads[:1])


def _share(noise: float) -> str:
    return f"noise {100 * noise:.0f} %"


def kind_table(rows: list[dict[str, Any]]) -> str:
    heads = ["noise of a run, 2 %", "identical candidates: accused", "runs"]
    heads += ["a 5 % step: culprit named", "another named", "runs"]
    lines = [
        [
            row["noise"],
            f"{row['accusations']} of {row['identical']}",
            f"{row['runs_of_identical']:.0f}",
            f"{row['right']:.0%}",
            f"{row['wrong']:.0%}",
            f"{row['runs']:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(heads, lines, words=heads[:1])


def broken_promises(rows: list[dict[str, Any]]) -> list[str]:
    """Of the rows by noise."""
    broken = [
        f"{row['noise']}: {row['accusations']} of {row['identical']} searches over identical candidates accuse one"
        for row in rows
        if row["accused_share"] > FALSE_ACCUSATIONS
    ]
    broken += [
        f"{row['noise']}: {row['right']:.0%} right"
        for row in rows
        if row["noise"] == "Gaussian" and row["right"] < FOUND
    ]
    return broken


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", type=int, default=60)
    parser.add_argument("--accused", type=int, default=300, help="searches over identical candidates, by noise")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    settings = [
        (method, noise, disturbed, STEADY)
        for disturbed in (False, True)
        for noise in NOISES
        for method in PLAYERS
        if method != "uncorrected"
    ]
    settings += [
        (method, noise, False, drift)
        for noise in DRIFT_NOISES
        for drift in DRIFTS
        for method in DRIFT_METHODS
        if drift != STEADY or method == "uncorrected"
    ]
    with ProcessPoolExecutor(args.jobs) as pool:
        by_kind = pool.map(kind_row, KINDS, [args.games] * len(KINDS), [args.accused] * len(KINDS))
        drifts = list(pool.map(drift_row, *zip(*settings, strict=True), [args.games] * len(settings)))
        kinds = list(by_kind)
    print(noise_table(drifts), drift_table(drifts), kind_table(kinds), sep="\n")
    broken = broken_promises(kinds)
    print("\n".join(broken) or "all promises kept")
    if args.json:
        result = {"candidates": CANDIDATES, "step": STEP, "games": args.games, "rows": drifts, "kinds": kinds}
        args.json.write_text(json.dumps({**result, "broken": broken}, indent=1) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
