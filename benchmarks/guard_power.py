"""Power and false alarms of `tare check` by simulation with known answers, and of the plain 7 % rule.

    python -m benchmarks.guard_power [--nights 1000] [--json results/guard/power.json]

A night is 200 cases. Every process's figure is drawn from a noise whose truth is known, in the order in which
`check` would run it, and goes through the very functions that `check` calls. The exit code is 1 if a promise is
broken.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tare.stats.comparison import Comparison, compare
from tare.stats.power import process_noise
from tare.stats.two_stage import INTERIM_ROUNDS, LEVEL, confirm, is_futile, is_suspect, rounds_to_confirm

Values = NDArray[np.float64]
Rng = np.random.Generator
Noise = Callable[[Rng, int], Values]

CASES = 200
ROUNDS = 6
NOISE = 0.02
MARGIN = 0.02
THRESHOLD = 0.07
BASELINE_ROUNDS = 20
# How many times the noise of a loud machine is.
LOUD = 3.0
FALSE_ALARMS = 0.01
FOUND = 0.95
SEED = 20260601


def gaussian(rng: Rng, count: int) -> Values:
    return rng.normal(0, NOISE, count)


def heavy_tailed(rng: Rng, count: int) -> Values:
    """Student's t with 3 degrees of freedom, of the same standard deviation."""
    return np.asarray(rng.standard_t(3, count) * NOISE / math.sqrt(3))


def outliers(rng: Rng, count: int) -> Values:
    """Gaussian, and one process in twenty takes 30 % longer."""
    return np.asarray(rng.normal(0, NOISE, count) + math.log(1.3) * (rng.random(count) < 0.05))


def bimodal(rng: Rng, count: int) -> Values:
    """Three processes in ten land in a slow mode; the standard deviation is the same."""
    share = 0.3
    gap = 0.97 * NOISE / math.sqrt(share * (1 - share))
    return np.asarray(gap * (rng.random(count) < share) + rng.normal(0, 0.24 * NOISE, count))


def drifting(rng: Rng, count: int) -> Values:
    """Gaussian on a machine that becomes 8 % slower or faster while a case is measured."""
    return np.asarray(rng.normal(0, NOISE, count) + rng.choice([-0.08, 0.08]) * np.linspace(0, 1, count))


def autocorrelated(rng: Rng, count: int) -> Values:
    """AR(1) with 0.7 between one process and the next."""
    shocks = rng.normal(0, NOISE * math.sqrt(1 - 0.7**2), count)
    values = np.empty(count)
    last = rng.normal(0, NOISE)
    for i in range(count):
        values[i] = last = 0.7 * last + shocks[i]
    return values


KINDS: dict[str, Noise] = {
    "Gaussian": gaussian,
    "heavy-tailed": heavy_tailed,
    "outliers": outliers,
    "bimodal": bimodal,
    "drifting": drifting,
    "autocorrelated": autocorrelated,
}


class Night(NamedTuple):
    """The result of one night: false alarm, change found, check failed, and the cost."""

    false_alarm: bool
    found: bool
    failed: bool
    processes: int


def interleaved(noise: Noise, rng: Rng, rounds: int, step: float) -> tuple[list[float], list[float]]:
    """Rounds of the baseline and of the new version side by side, the order within each pair drawn at random."""
    values = noise(rng, 2 * rounds).reshape(rounds, 2)
    swapped = rng.random(rounds) < 0.5
    a = np.where(swapped, values[:, 1], values[:, 0])
    b = np.where(swapped, values[:, 0], values[:, 1]) + math.log1p(step)
    return np.exp(a).tolist(), np.exp(b).tolist()


def confirmed(a: list[float], b: list[float]) -> Comparison:
    """An interleaved confirmation, which stops early if it is futile."""
    look = compare(a[:INTERIM_ROUNDS], b[:INTERIM_ROUNDS], paired=True)
    return look if len(b) > INTERIM_ROUNDS and is_futile(look) else compare(a, b, paired=True)


def checked_night(noise: Noise, rng: Rng, step: float) -> Night:
    """`tare check` with the baseline's version. Only the first case has the change."""
    suspects: list[tuple[int, Comparison]] = []
    for case in range(CASES):
        a, b = interleaved(noise, rng, ROUNDS, step if case == 0 else 0.0)
        first = compare(a, b, paired=True)
        if is_suspect(a, b, first, MARGIN):
            suspects.append((case, first))
    again, processes = [], 2 * ROUNDS * CASES
    for case, first in suspects:
        rounds = rounds_to_confirm(process_noise(first), len(suspects), MARGIN)
        a, b = interleaved(noise, rng, rounds, step if case == 0 else 0.0)
        again.append(confirmed(a, b))
        processes += 2 * again[-1].rounds_b
    return judged_night(suspects, again, step, processes)


def stored_night(noise: Noise, rng: Rng, step: float) -> Night:
    """`tare check` against a stored baseline of 20 rounds, which cannot be measured again."""
    suspects, baselines = [], []
    for case in range(CASES):
        a = np.exp(noise(rng, BASELINE_ROUNDS)).tolist()
        shift = math.log1p(step) if case == 0 else 0.0
        b = np.exp(noise(rng, ROUNDS) + shift).tolist()
        first = compare(a, b)
        if is_suspect(a, b, first, MARGIN):
            suspects.append((case, first))
            baselines.append(a)
    again, processes = [], ROUNDS * CASES
    for (case, first), a in zip(suspects, baselines, strict=True):
        rounds = rounds_to_confirm(process_noise(first), CASES, MARGIN)
        shift = math.log1p(step) if case == 0 else 0.0
        processes += rounds
        again.append(compare(a, np.exp(noise(rng, rounds) + shift).tolist(), required_p=LEVEL / CASES))
    verdicts = confirm(again, [MARGIN] * len(again), tests=CASES)
    return _night(suspects, again, verdicts, step, processes)


def seven_percent_night(noise: Noise, rng: Rng, step: float, rounds: int) -> Night:
    """The TorchBench paper's rule: a median is over 7 % above last night's median. `rounds` processes a median."""
    logs = np.array([np.median(noise(rng, rounds)) - np.median(noise(rng, rounds)) for _ in range(CASES)])
    logs[0] += math.log1p(step)
    alarms = logs > math.log1p(THRESHOLD)
    return Night(bool(alarms[1 if step else 0 :].any()), bool(alarms[0]), bool(alarms[0]), 2 * rounds * CASES)


def judged_night(
    suspects: list[tuple[int, Comparison]], again: list[Comparison], step: float, processes: int
) -> Night:
    """The verdicts of an interleaved check on the confirmations of its suspects."""
    return _night(suspects, again, confirm(again, [MARGIN] * len(again)), step, processes)


def _night(
    suspects: list[tuple[int, Comparison]],
    again: list[Comparison],
    verdicts: list[Any],
    step: float,
    processes: int,
) -> Night:
    alarms = {
        case: two for (case, _), two, said in zip(suspects, again, verdicts, strict=True) if said == "higher"
    }
    false = any(case != 0 or step == 0 for case in alarms)
    failed = 0 in alarms and alarms[0].ratio.high >= 1 + THRESHOLD
    return Night(false, 0 in alarms, failed, processes)


RULES: dict[str, Callable[[Noise, Rng, float], Night]] = {
    "check, interleaved": checked_night,
    "check, stored baseline": stored_night,
    "7 % rule, one process": lambda noise, rng, step: seven_percent_night(noise, rng, step, 1),
    "7 % rule, median of 6": lambda noise, rng, step: seven_percent_night(noise, rng, step, 6),
}
# A stored baseline cannot promise anything where the machine changes between the sessions.
PROMISED = "check, interleaved"


def measure(rule: str, kind: str, nights: int) -> dict[str, Any]:
    """The share of quiet nights with a false alarm, and of nights with a true 5 % step in which it was found."""
    rng = np.random.default_rng([SEED, list(RULES).index(rule), list(KINDS).index(kind)])
    quiet = [RULES[rule](KINDS[kind], rng, 0.0) for _ in range(nights)]
    stepped = [RULES[rule](KINDS[kind], rng, 0.05) for _ in range(max(nights // 2, 1))]
    large = [RULES[rule](KINDS[kind], rng, THRESHOLD) for _ in range(max(nights // 5, 1))]
    return {
        "rule": rule,
        "noise": kind,
        "nights": nights,
        "false_alarm_nights": sum(night.false_alarm for night in quiet),
        "false_alarm_share": sum(night.false_alarm for night in quiet) / len(quiet),
        "found_5_percent": sum(night.found for night in stepped) / len(stepped),
        "failed_7_percent": sum(night.failed for night in large) / len(large),
        "processes_a_night": sum(night.processes for night in quiet) / len(quiet),
    }


def measure_loud(kind: str, nights: int) -> dict[str, Any]:
    """False alarms where the noise is three times as large, so that the margin does not help to avoid them."""
    rng = np.random.default_rng([SEED, 99, list(KINDS).index(kind)])
    plain = KINDS[kind]
    quiet = [checked_night(lambda rng, count: LOUD * plain(rng, count), rng, 0.0) for _ in range(nights)]
    alarms = sum(night.false_alarm for night in quiet)
    return {
        "rule": PROMISED,
        "noise": kind,
        "nights": nights,
        "false_alarm_nights": alarms,
        "false_alarm_share": alarms / nights,
        "processes_a_night": sum(night.processes for night in quiet) / nights,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| noise between processes, 2 % | rule | nights with a false alarm | 5 % step found "
        "| 7 % step fails the check | processes a night |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        lines.append(
            f"| {row['noise']} | {row['rule']} | {row['false_alarm_share']:.1%} | {row['found_5_percent']:.1%} "
            f"| {row['failed_7_percent']:.1%} | {row['processes_a_night']:.0f} |"
        )
    return "\n".join(lines)


def broken_promises(rows: list[dict[str, Any]]) -> list[str]:
    broken = []
    for row in rows:
        if row["rule"] != PROMISED:
            continue
        if row["false_alarm_share"] > FALSE_ALARMS:
            broken.append(f"{row['noise']}: false alarms in {row['false_alarm_share']:.2%} of nights")
        if row.get("found_5_percent", 1.0) < FOUND:
            broken.append(f"{row['noise']}: a 5 % step is found in {row['found_5_percent']:.1%}")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began = time.monotonic()
    pairs = [(rule, kind) for kind in KINDS for rule in RULES]
    with ProcessPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(measure, *zip(*pairs, strict=True), [args.nights] * len(pairs)))
        loud = list(pool.map(measure_loud, KINDS, [args.nights] * len(KINDS)))
    print(table(rows))
    for row in loud:
        print(f"at {LOUD * NOISE:.0%}, {row['noise']}: false alarms in {row['false_alarm_share']:.1%} of nights")
    broken = broken_promises([*rows, *loud])
    print("\n".join(broken) or "all promises kept")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        setting = {"cases": CASES, "rounds": ROUNDS, "noise": NOISE, "margin": MARGIN, "threshold": THRESHOLD}
        setting |= {"baseline_rounds": BASELINE_ROUNDS, "seed": SEED, "seconds": round(time.monotonic() - began)}
        args.json.write_text(
            json.dumps({"setting": setting, "rows": rows, "loud": loud, "broken": broken}, indent=1) + "\n"
        )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
