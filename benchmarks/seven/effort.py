"""How many runs a search takes: simulated with the noise and the step that a real bisection saw.

The noise is that of the real runs themselves, drawn again at random: each run less the mean of its candidate's.
"""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

from tare.stats.search import Search

GAMES = 200
# The error rate that a search promises.
WRONG = 0.05
MOST_RUNS_EACH = 99


def tare_effort(outcome: dict[str, Any]) -> dict[str, float]:
    """tare's search on the same change and noise."""
    games = []
    for seed in range(GAMES):
        run, culprit, last = _simulated(outcome, seed)
        search = Search(last)
        while isinstance(step := search.next(), int):
            search.add(step, math.exp(run(step)))
        named = [each.culprit for each in search.state().culprits] if step == "found" else []
        games.append((named == [culprit], search.spent))
    return _effort(games)


def plain_effort(outcome: dict[str, Any], exact: bool) -> dict[str, float]:
    """Plain binary search: the fewest runs of each candidate with which it is wrong as seldom as promised."""
    last = outcome["candidates"] - 1
    halvings = math.ceil(math.log2(last))
    if exact:
        return {"runs_each": 1, "runs": 2 + halvings, "right": 1.0}
    for each in range(1, MOST_RUNS_EACH + 1, 2):
        games = [(_plain(*_simulated(outcome, seed), each), (2 + halvings) * each) for seed in range(GAMES)]
        effort = _effort(games)
        if effort["right"] >= 1 - WRONG:
            break
    return {"runs_each": each, **effort}


def _plain(run: Callable[[int], float], culprit: int, last: int, each: int) -> bool:
    def level(candidate: int) -> float:
        return median(run(candidate) for _ in range(each))

    middle = (level(0) + level(last)) / 2
    low, high = 0, last
    while high - low > 1:
        at = (low + high) // 2
        low, high = (low, at) if level(at) > middle else (at, high)
    return high == culprit


def _simulated(outcome: dict[str, Any], seed: int) -> tuple[Callable[[int], float], int, int]:
    """A run as a logarithm, the culprit, and the last candidate."""
    chance = random.Random(seed)
    last = outcome["candidates"] - 1
    culprit = chance.randint(1, last)
    step, noise = math.log(outcome["ratio"]), _noise(outcome)

    def run(candidate: int) -> float:
        return (step if candidate >= culprit else 0.0) + chance.choice(noise)

    return run, culprit, last


def _noise(outcome: dict[str, Any]) -> list[float]:
    runs: dict[int, list[float]] = {}
    for line in Path(outcome["journal"]).read_text().splitlines():
        entry = json.loads(line)
        if entry["type"] == "run":
            runs.setdefault(entry["candidate"], []).append(math.log(entry["value"]))
    several = [values for values in runs.values() if len(values) > 2]
    # Deviations from a mean are too small by this factor.
    return [
        (value - mean(values)) * math.sqrt(len(values) / (len(values) - 1))
        for values in several
        for value in values
    ]


def _effort(games: list[tuple[bool, int]]) -> dict[str, float]:
    return {"runs": mean(spent for _, spent in games), "right": mean(right for right, _ in games)}
