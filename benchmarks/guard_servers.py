"""Do workers of one fork server share a pace that those of another do not have? Measured on one version.

    python -m benchmarks.guard_servers [--servers 8] [--rounds 6] [--workloads @smoke] [--threads 1] [--json FILE]

Some fork servers of this very version are held, and every case is measured on all of them in each round, in an
order drawn for that round. If a server meant nothing, its place among the others would be drawn anew in each round
as well: Friedman's test asks that, and holds whatever the machine does meanwhile. The spread is the standard
deviation between servers of the logarithm of a figure, beside that between processes of one server. `fastest` is
the fastest block of a round: a machine that changes its pace disturbs it less than the median.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.plan import expand_plan, make_plan
from tare.execute.catalogue import LocalCatalogue, open_plan
from tare.execute.executor import Executor
from tare.execute.preload import preload_of_plan
from tare.execute.session import open_executor
from tare.guard.metrics import METRICS
from tare.records.record import Round
from tare.stats.comparison import compare

ROUND_BUDGET_S = 0.15
SEED = 20261115


def fastest(done: Round) -> float | None:
    series = done.find("pipelined")
    return min(series.step_seconds(), default=None) if series else None


WATCHED = ("gross", "latency", "preparation", "host_peak")
FIGURES = {metric.name: metric.of_round for metric in METRICS if metric.name in WATCHED} | {"fastest": fastest}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--workloads", default="@smoke", help="groups and names, separated by commas")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    grid = {"workload": args.workloads.split(","), "rung": ["eager"], "device": ["cpu"], "smoke": True}
    grid |= {"threads": [args.threads]} if args.threads else {}
    plan = open_plan(make_plan({"grid": [grid]}, "guard_servers"))
    options = Options(rounds=args.rounds, budget=ROUND_BUDGET_S * args.rounds, parity=False)
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(open_executor("fork", preload=preload_of_plan(plan))) for _ in range(args.servers)
        ]
        probed = [server.probe() for server in servers]
        cases = expand_plan(plan, LocalCatalogue(probed[0])).cases
        rows = [row for case in cases for row in compare_servers(case, servers, options)]
    print(table(rows))
    if args.json:
        setting = {"servers": args.servers, "rounds": args.rounds, "round_budget_s": ROUND_BUDGET_S, "seed": SEED}
        setting |= {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load_1min": os.getloadavg()[0]}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"setting": setting, "rows": rows}, indent=1) + "\n")
    return 0


def compare_servers(case: Case, servers: list[Any], options: Options) -> list[dict[str, Any]]:
    """One row a figure of one case, over all servers."""
    drawn = random.Random(f"{SEED} {case.key}")
    values = {name: np.full((options.rounds, len(servers)), math.nan) for name in FIGURES}
    for index in range(options.rounds):
        for position in drawn.sample(range(len(servers)), len(servers)):
            server: Executor = servers[position]
            done = server.run_round(case, index, options, check=False)
            for name, of_round in FIGURES.items():
                values[name][index, position] = of_round(done) or math.nan
    return [{"case": case.key, "metric": name, **spread(np.log(found))} for name, found in values.items()]


def spread(logs: NDArray[np.float64]) -> dict[str, Any]:
    """Of rounds by servers, with what the machine did to a whole round taken out: Friedman's p, the two standard
    deviations by the analysis of variance, the median of each server, and the smallest p with which `check` would
    find one server above another (times the number of pairs of servers: Bonferroni)."""
    from scipy.stats import friedmanchisquare

    rounds, servers = logs.shape
    centred = logs - logs.mean(axis=1, keepdims=True)
    by_median = np.median(logs - np.median(logs, axis=1, keepdims=True), axis=0)
    values = np.exp(logs)
    pairs = [
        compare(values[:, a].tolist(), values[:, b].tolist(), paired=True).p_higher
        for a, b in itertools.permutations(range(servers), 2)
    ]
    means = centred.mean(axis=0)
    within = float(((centred - means) ** 2).sum() / (rounds - 1) / (servers - 1))
    between = float((means**2).sum() / (servers - 1)) - within / rounds
    return {
        "p": float(friedmanchisquare(*logs.T).pvalue) if np.ptp(logs) else 1.0,
        "between_servers": math.sqrt(max(between, 0.0)),
        "between_processes": math.sqrt(within),
        "servers": [round(float(middle), 4) for middle in by_median],
        "smallest_pair_p": min(1.0, min(pairs) * len(pairs)),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'figure':60s} {'p':>8s} {'a pair':>8s} {'servers':>8s} {'processes':>9s}  medians of the servers"]
    for row in sorted(rows, key=lambda row: float(row["p"])):
        name = f"{row['metric']} {row['case']}"[:60]
        lines.append(
            f"{name:60s} {row['p']:8.2g} {row['smallest_pair_p']:8.2g} {row['between_servers']:8.2%} "
            f"{row['between_processes']:9.2%}  " + " ".join(f"{middle:+.1%}" for middle in row["servers"])
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
