"""False alarms and power of `tare check` where a side's fork server gives its workers a pace, by simulation.

    python -m benchmarks.guard_served [--nights 300] [--json results/guard/served.json]

A night is as in benchmarks.guard_power, with Gaussian noise of 2 % between processes; half of its variance belongs
to the server that forked them. A server's pace is its own for each case, or one for all cases. Beside `check`,
which renews both servers for every round, stands what it would be with one server a side. The exit code is 1 if a
promise is broken.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.guard_power import (
    CASES,
    FALSE_ALARMS,
    FOUND,
    MARGIN,
    ROUNDS,
    SEED,
    THRESHOLD,
    Measured,
    Night,
    confirmed,
    judged_night,
)
from benchmarks.noise import NOISE, Rng, Values
from tare.report.formats.markdown import table as markdown_table
from tare.stats.comparison import Comparison
from tare.stats.two_stage import MAX_CONFIRM, confirm, is_suspect

PART = NOISE / math.sqrt(2)


class Servers:
    """The paces of both sides' servers in one stage: rounds by sides by cases. Without renewal they stay the same
    for all rounds and in both stages."""

    def __init__(self, rng: Rng, renewed: bool, common: bool) -> None:
        self._rng, self._renewed, self._common = rng, renewed, common
        self._kept = self._draw(1)

    def paces(self) -> Values:
        return self._draw(MAX_CONFIRM) if self._renewed else np.repeat(self._kept, MAX_CONFIRM, axis=0)

    def _draw(self, rounds: int) -> Values:
        drawn = self._rng.normal(0, PART, (rounds, 2, 1 if self._common else CASES))
        return np.broadcast_to(drawn, (rounds, 2, CASES)).copy()


def measured(rng: Rng, paces: Values, case: int, rounds: int, step: float) -> Measured:
    logs = rng.normal(0, PART, (rounds, 2)) + paces[:rounds, :, case]
    logs[:, 1] += math.log1p(step) if case == 0 else 0.0
    # The order does not matter here: a process's figure does not depend on the one before.
    b_first = (rng.permutation(rounds) % 2 == 0).tolist()
    return Measured(np.exp(logs[:, 0]).tolist(), np.exp(logs[:, 1]).tolist(), b_first)


def night(rng: Rng, renewed: bool, common: bool, step: float) -> Night:
    """Only the first case has the change."""
    servers = Servers(rng, renewed, common)
    paces, suspects = servers.paces(), []
    for case in range(CASES):
        first = measured(rng, paces, case, ROUNDS, step)
        if is_suspect(first.a, first.b, first.compare(), MARGIN):
            suspects.append(case)
    again: list[Comparison] = []
    paces, processes = servers.paces(), 2 * ROUNDS * CASES
    for case in suspects:
        again += confirmed([measured(rng, paces, case, MAX_CONFIRM, step)], len(suspects))
        processes += 2 * again[-1].rounds_b
    changed = [case == 0 and step > 0 for case in suspects]
    return judged_night(changed, again, confirm(again, [MARGIN] * len(again)), processes)


def measure(renewed: bool, common: bool, nights: int) -> dict[str, Any]:
    rng = np.random.default_rng([SEED, 77, renewed, common])
    quiet = [night(rng, renewed, common, 0.0) for _ in range(nights)]
    stepped = [night(rng, renewed, common, 0.05) for _ in range(max(nights // 2, 1))]
    return {
        "servers": "renewed for every round" if renewed else "one a side",
        "pace": "one for all cases" if common else "its own for each case",
        "nights": nights,
        "false_alarm_share": sum(each.false_alarm for each in quiet) / len(quiet),
        "found_5_percent": sum(each.found for each in stepped) / len(stepped),
        "processes_a_night": sum(each.processes for each in quiet) / len(quiet),
    }


def table(rows: list[dict[str, Any]]) -> str:
    words = ["servers", "a server's pace is"]
    heads = [*words, "nights with a false alarm", "5 % step found", "processes a night"]
    lines = [
        [
            row["servers"],
            row["pace"],
            f"{row['false_alarm_share']:.1%}",
            f"{row['found_5_percent']:.1%}",
            f"{row['processes_a_night']:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(heads, lines, words)


def broken_promises(rows: list[dict[str, Any]]) -> list[str]:
    """The promises of `check`; one server a side promises nothing."""
    return [
        f"{row['servers']}, {row['pace']}: {row['false_alarm_share']:.2%}, {row['found_5_percent']:.1%}"
        for row in rows
        if row["servers"] != "one a side"
        and (row["false_alarm_share"] > FALSE_ALARMS or row["found_5_percent"] < FOUND)
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=300)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began = time.monotonic()
    rows = [measure(renewed, common, args.nights) for renewed in (True, False) for common in (False, True)]
    broken = broken_promises(rows)
    print(table(rows))
    print("\n".join(broken) or "all promises kept")
    if args.json:
        setting = {"cases": CASES, "rounds": ROUNDS, "noise": NOISE, "of_servers": PART, "margin": MARGIN}
        setting |= {"threshold": THRESHOLD, "seed": SEED, "seconds": round(time.monotonic() - began)}
        args.json.write_text(json.dumps({"setting": setting, "rows": rows, "broken": broken}, indent=1) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
