"""Power and false alarms of `tare check` by simulation with known answers, and of the plain 7 % rule.

    python -m benchmarks.guard_power [--nights 300] [--checks 300] [--jobs 2] [--json results/guard/power.json]

A night is 200 cases. Every process's figure is drawn from a noise of benchmarks.noise, in the order in which
`check` would run it, and goes through the very functions that `check` calls. It prints the tables of
docs/guard.md: every noise and rule with one metric; `check` with three times the noise, with five metrics a case,
and with a change of ten times the noise; and checks of one case. The exit code is 1 if a promise is broken.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.noise import KINDS, NOISE, Rng, sample, series
from tare.report.formats.markdown import table as markdown_table
from tare.stats.comparison import RANK_TEST_P, Comparison, compare
from tare.stats.power import process_noise
from tare.stats.two_stage import (
    LEVEL,
    OVERWHELMING_ROUNDS,
    RESOLUTION,
    confirm,
    early_rounds,
    interim_rounds,
    is_decided,
    is_overwhelming,
    is_suspect,
    max_rounds_to_confirm,
    rounds_to_confirm,
    spend,
)

CASES = 200
ROUNDS = 6
MARGIN = 0.02
THRESHOLD = 0.07
BASELINE_ROUNDS = 20
# How many times the noise of a loud machine is, and how many metrics of a case a night with many has.
LOUD = 3.0
METRICS = 5
# A slower step changes gross, gross_p5 and latency.
SLOWER_METRICS = 3
# A change of ten times the noise.
LARGE = 10 * NOISE
FALSE_ALARMS = 0.01
# The share of 5 % steps that is found: what is claimed under the usual noises, and under those that were not tuned
# for. Under Cauchy's noise nothing is claimed.
FOUND, FOUND_UNDER_ANY = 0.95, 0.8
USUAL = ("Gaussian", "heavy-tailed", "bimodal", "drifting", "AR(0.7)", "AR(0.9)", "alternating")
NOT_CLAIMED = ("Cauchy",)
# Fewer nights do not show a share.
FEWEST_NIGHTS = 20
SEED = 20260601


class Measured(NamedTuple):
    """One metric of one case: rounds of the baseline and of the new version. Side by side, `b_first` says which
    version came first; a stored baseline (None) has all its rounds already."""

    a: list[float]
    b: list[float]
    b_first: list[bool] | None
    required_p: float = RANK_TEST_P

    def first(self, rounds: int) -> "Measured":
        if self.b_first is None:
            return self._replace(b=self.b[:rounds])
        return Measured(self.a[:rounds], self.b[:rounds], self.b_first[:rounds])

    def compare(self) -> Comparison:
        paired = self.b_first is not None
        return compare(self.a, self.b, paired=paired, required_p=self.required_p, b_first=self.b_first or ())


class Night(NamedTuple):
    """The result of one night: false alarm, change found, check failed, the cost, and the rounds of the
    confirmation and of the first measurement of the changed case."""

    false_alarm: bool
    found: bool
    failed: bool
    processes: int
    rounds: int = 0
    first_rounds: int = 0


def interleaved(
    kind: str, rng: Rng, rounds: int, step: float, scale: float = NOISE, balanced: bool = False
) -> Measured:
    """Rounds of the baseline and of the new version side by side, the order within each pair drawn at random; in
    the first measurement of a check each side is first in one of every two rounds."""
    values = series(kind, rng, 2 * rounds, scale).reshape(rounds, 2)
    b_first = rng.random(rounds) < 0.5
    if balanced:
        b_first[1::2] = ~b_first[: rounds - 1 : 2]
    a = np.where(b_first, values[:, 1], values[:, 0])
    b = np.where(b_first, values[:, 0], values[:, 1]) + math.log1p(step)
    return Measured(np.exp(a).tolist(), np.exp(b).tolist(), b_first.tolist())


def confirmed(suspected: Sequence[Measured], suspects: int) -> list[Comparison]:
    """A confirmation of the suspected metrics of a case, which stops early if all of them are decided."""
    rounds, metrics = len(suspected[0].b), len(suspected)
    for look in interim_rounds(metrics, suspects, rounds):
        comparisons = [metric.first(look).compare() for metric in suspected]
        if is_decided(comparisons, [MARGIN] * metrics, suspects):
            break
    else:
        comparisons = [metric.compare() for metric in suspected]
    looked = rounds > early_rounds(metrics, suspects)[0]
    return [spend(each, metrics, suspects) if looked else each for each in comparisons]


def first_measurement(measured: Sequence[Measured]) -> list[Measured]:
    """The first rounds of a case's metrics: fewer if one of them is overwhelming."""
    looks = [metric.first(OVERWHELMING_ROUNDS) for metric in measured]
    ends = any(is_overwhelming(look.a, look.b, look.compare(), MARGIN) for look in looks)
    return looks if ends else list(measured)


def checked_night(
    kind: str,
    rng: Rng,
    step: float,
    scale: float = NOISE,
    metrics: int = 1,
    cases: int = CASES,
    changed_metrics: int = 1,
    is_stored: bool = False,
) -> Night:
    """`tare check` with the baseline's version, or against a stored baseline of 20 rounds, which cannot be
    measured again. Only the first case has the change, in its first metrics. The noises of a case's metrics are
    independent, which makes the most suspects."""

    def step_of(case: int, metric: int) -> float:
        return step if case == 0 and metric < changed_metrics else 0.0

    tests = cases * metrics
    drawn = sample(kind, rng, tests if is_stored else 0, BASELINE_ROUNDS, scale)
    baselines: list[list[float]] = np.exp(drawn).tolist()

    def measured(case: int, metric: int, rounds: int, balanced: bool = False) -> Measured:
        step = step_of(case, metric)
        if not is_stored:
            return interleaved(kind, rng, rounds, step, scale, balanced)
        now = series(kind, rng, rounds, scale) + math.log1p(step)
        required_p = RANK_TEST_P if balanced else LEVEL / tests
        return Measured(baselines[case * metrics + metric], np.exp(now).tolist(), None, required_p)

    suspects: dict[int, dict[int, float]] = {}
    processes, rounds_of_changed, first_rounds = 0, 0, 0
    for case in range(cases):
        first = first_measurement([measured(case, metric, ROUNDS, balanced=True) for metric in range(metrics)])
        processes += len(first[0].b)
        if case == 0 and step:
            first_rounds = len(first[0].b)
        for metric, each in enumerate(first):
            if is_suspect(each.a, each.b, (compared := each.compare()), MARGIN):
                suspects.setdefault(case, {})[metric] = process_noise(compared)
    count = tests if is_stored else sum(map(len, suspects.values()))
    changed: list[bool] = []
    again: list[Comparison] = []
    for case, suspected in suspects.items():
        if is_stored:
            rounds = max(rounds_to_confirm(noise, count, MARGIN) for noise in suspected.values())
        else:
            rounds = max_rounds_to_confirm(MARGIN, RESOLUTION)
        comparisons = confirmed([measured(case, metric, rounds) for metric in suspected], count)
        processes += comparisons[0].rounds_b
        again += comparisons
        changed += [step_of(case, metric) > 0 for metric in suspected]
        if any(step_of(case, metric) > 0 for metric in suspected):
            rounds_of_changed = comparisons[0].rounds_b
    verdicts = confirm(again, [MARGIN] * len(again), tests=count if is_stored else None)
    processes *= 1 if is_stored else 2
    night = judged_night(changed, again, verdicts, processes, rounds_of_changed)
    return night._replace(first_rounds=first_rounds)


def seven_percent_night(kind: str, rng: Rng, step: float, rounds: int) -> Night:
    """The TorchBench paper's rule: a median is over 7 % above last night's median. `rounds` processes a median."""
    before, now = (np.median(sample(kind, rng, CASES, rounds), axis=1) for _ in range(2))
    logs = now - before
    logs[0] += math.log1p(step)
    alarms = logs > math.log1p(THRESHOLD)
    return Night(bool(alarms[1 if step else 0 :].any()), bool(alarms[0]), bool(alarms[0]), 2 * rounds * CASES)


def judged_night(
    changed: list[bool], again: list[Comparison], verdicts: Sequence[Any], processes: int, rounds: int = 0
) -> Night:
    """The confirmations of all suspects, with their verdicts. `changed` says which of them are true."""
    accused = [
        (is_true, comparison)
        for is_true, comparison, verdict in zip(changed, again, verdicts, strict=True)
        if verdict == "higher"
    ]
    true_alarms = [comparison for is_true, comparison in accused if is_true]
    failed = any(comparison.ratio.high >= 1 + THRESHOLD for comparison in true_alarms)
    return Night(len(accused) > len(true_alarms), bool(true_alarms), failed, processes, rounds)


RULES: dict[str, Callable[[str, Rng, float], Night]] = {
    "check, interleaved": checked_night,
    "check, stored baseline": lambda kind, rng, step: checked_night(kind, rng, step, is_stored=True),
    "7 % rule, one process": lambda kind, rng, step: seven_percent_night(kind, rng, step, 1),
    "7 % rule, median of 6": lambda kind, rng, step: seven_percent_night(kind, rng, step, 6),
}
# A stored baseline cannot promise anything where the machine changes between the sessions.
CHECKS = tuple(RULES)[:2]
PROMISED = CHECKS[0]


def measure(rule: str, kind: str, nights: int) -> dict[str, Any]:
    """The share of quiet nights with a false alarm, and of nights with a true 5 % step in which it was found."""
    rng = np.random.default_rng([SEED, list(RULES).index(rule), list(KINDS).index(kind)])
    quiet = [RULES[rule](kind, rng, 0.0) for _ in range(nights)]
    stepped = [RULES[rule](kind, rng, 0.05) for _ in range(max(nights // 2, 1))]
    large = [RULES[rule](kind, rng, THRESHOLD) for _ in range(max(nights // 5, 1))]
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
    quiet = [checked_night(kind, rng, 0.0, LOUD * NOISE) for _ in range(nights)]
    alarms = sum(night.false_alarm for night in quiet)
    return {
        "rule": PROMISED,
        "noise": kind,
        "nights": nights,
        "false_alarm_nights": alarms,
        "false_alarm_share": alarms / nights,
        "processes_a_night": sum(night.processes for night in quiet) / nights,
    }


def measure_many_metrics(kind: str, nights: int) -> dict[str, Any]:
    """The same with five independent metrics a case: the processes that a night takes."""
    rng = np.random.default_rng([SEED, 98, list(KINDS).index(kind)])
    quiet = [checked_night(kind, rng, 0.0, metrics=METRICS) for _ in range(nights)]
    stepped = [checked_night(kind, rng, 0.05, metrics=METRICS) for _ in range(nights)]
    return {
        "rule": PROMISED,
        "noise": kind,
        "nights": nights,
        "metrics": METRICS,
        "false_alarm_nights": sum(night.false_alarm for night in quiet),
        "false_alarm_share": sum(night.false_alarm for night in quiet) / nights,
        "found_5_percent": sum(night.found for night in stepped) / nights,
        "processes_a_night": sum(night.processes for night in quiet) / nights,
    }


def measure_large(kind: str, nights: int) -> dict[str, Any]:
    """A change of ten times the noise, and the rounds of its confirmation."""
    rng = np.random.default_rng([SEED, 97, list(KINDS).index(kind)])
    large = [checked_night(kind, rng, LARGE) for _ in range(nights)]
    return {
        "noise": kind,
        "nights": nights,
        "change": LARGE,
        "found": sum(night.found for night in large) / nights,
        "median_rounds": float(np.median([night.rounds for night in large])),
        "largest_rounds": max(night.rounds for night in large),
    }


def measure_one_case(rule: str, kind: str, checks: int) -> dict[str, Any]:
    """A check of one case with three metrics: false alarms, and the rounds of both measurements together that a
    change of ten times the noise in all three takes."""
    rng = np.random.default_rng([SEED, 96 - CHECKS.index(rule), list(KINDS).index(kind)])

    def check(step: float, scale: float = NOISE) -> Night:
        metrics, is_stored = SLOWER_METRICS, rule != PROMISED
        return checked_night(kind, rng, step, scale, metrics, 1, metrics, is_stored)

    quiet = [check(0.0, LOUD * NOISE) for _ in range(checks)]
    large = [check(LARGE) for _ in range(max(checks // 20, 10))]
    return {
        "rule": rule,
        "noise": kind,
        "nights": checks,
        "false_alarm_nights": sum(night.false_alarm for night in quiet),
        "false_alarm_share": sum(night.false_alarm for night in quiet) / checks,
        "found": sum(night.found for night in large) / len(large),
        "median_rounds": float(np.median([night.first_rounds + night.rounds for night in large])),
        "largest_rounds": max(night.first_rounds + night.rounds for night in large),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    words = ["noise between processes, 2 %", "rule"]
    heads = [
        *words,
        "nights with a false alarm",
        "5 % step found",
        "7 % step fails the check",
        "processes a night",
    ]
    lines = []
    for row in rows:
        shares = [f"{row[name]:.1%}" for name in ("false_alarm_share", "found_5_percent", "failed_7_percent")]
        lines.append([row["noise"], row["rule"], *shares, f"{row['processes_a_night']:.0f}"])
    return markdown_table(heads, lines, words)


def stress_table(result: dict[str, Any]) -> str:
    """By noise: three times the noise, five metrics, and a change of ten times the noise."""
    heads = ["noise between processes", "at 6 %: nights with a false alarm"]
    heads += ["five metrics: nights with a false alarm", "5 % step found", "processes a night"]
    heads += ["change of ten times the noise: found", "rounds of its confirmation"]
    lines = [
        [
            loud["noise"],
            f"{loud['false_alarm_nights']} of {loud['nights']}",
            f"{many['false_alarm_nights']} of {many['nights']}",
            f"{many['found_5_percent']:.0%}",
            f"{many['processes_a_night']:.0f}",
            f"{large['found']:.0%}",
            f"{large['median_rounds']:.0f}",
        ]
        for loud, many, large in zip(result["loud"], result["many_metrics"], result["large"], strict=True)
    ]
    return markdown_table(heads, lines, words=heads[:1])


def one_case_table(rows: list[dict[str, Any]]) -> str:
    """Checks of one case, by noise."""
    words = ["noise between processes", "rule"]
    heads = [*words, "at 6 %: checks with a false alarm", "change of ten times 2 %: found"]
    heads += ["rounds, median", "most"]
    lines = [
        [
            row["noise"],
            row["rule"],
            f"{row['false_alarm_nights']} of {row['nights']}",
            f"{row['found']:.0%}",
            f"{row['median_rounds']:.0f}",
            f"{row['largest_rounds']}",
        ]
        for row in rows
    ]
    return markdown_table(heads, lines, words)


def broken_promises(rows: list[dict[str, Any]]) -> list[str]:
    broken = []
    for row in rows:
        if row["rule"] != PROMISED:
            continue
        # Few nights cannot show a rate: one alarm among a hundred may be chance.
        if row["false_alarm_nights"] > max(FALSE_ALARMS * row["nights"], 1):
            broken.append(f"{row['noise']}: false alarms in {row['false_alarm_share']:.2%} of nights")
        claimed = FOUND if row["noise"] in USUAL else FOUND_UNDER_ANY
        enough = row["nights"] >= FEWEST_NIGHTS and row["noise"] not in NOT_CLAIMED
        if enough and row.get("found_5_percent", 1.0) < claimed:
            broken.append(f"{row['noise']}: a 5 % step is found in {row['found_5_percent']:.1%}")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=300)
    parser.add_argument("--checks", type=int, default=300, help="checks of one case")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began = time.monotonic()
    pairs = [(rule, kind) for kind in KINDS for rule in RULES]
    half, few = ([max(args.nights // part, 1)] * len(KINDS) for part in (2, 10))
    with ProcessPoolExecutor(args.jobs) as pool:
        rows = pool.map(measure, *zip(*pairs, strict=True), [args.nights] * len(pairs))
        loud = pool.map(measure_loud, KINDS, half)
        many = pool.map(measure_many_metrics, KINDS, few)
        large = pool.map(measure_large, KINDS, few)
        checks = [(rule, kind, args.checks) for kind in KINDS for rule in CHECKS]
        single = pool.map(measure_one_case, *zip(*checks, strict=True))
        result = {"rows": list(rows), "loud": list(loud), "many_metrics": list(many), "large": list(large)}
        result["one_case"] = list(single)
    print(table(result["rows"]), stress_table(result), one_case_table(result["one_case"]), sep="\n")
    broken = broken_promises([*result["rows"], *result["loud"], *result["many_metrics"], *result["one_case"]])
    print("\n".join(broken) or "all promises kept")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        setting = {"cases": CASES, "rounds": ROUNDS, "noise": NOISE, "margin": MARGIN, "threshold": THRESHOLD}
        setting |= {"baseline_rounds": BASELINE_ROUNDS, "seed": SEED, "seconds": round(time.monotonic() - began)}
        args.json.write_text(json.dumps({"setting": setting, **result, "broken": broken}, indent=1) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
