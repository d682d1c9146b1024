"""What the engine of a fleet costs: simulated cases that sleep, on this machine, on one node and on several.

    python -m benchmarks.fleet [--ladders 24] [--nodes 4] [--seconds 2] [--json FILE]

The nodes are processes of Ray on this machine, so only sleeping cases show what the engine adds: they leave the
cores free for the others. Between two rounds of one node lies what the engine does (a message, a ladder given, a
process started); it is compared with the same gap of `tare run` without a fleet.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))


def measure(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """One run, from its command to its end."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "tare", "run", "planted_tiny", *arguments, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    wall_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"the run ended with code {done.returncode}: {done.stderr}")
    return figures(json.loads(done.stdout)["records"]) | {"command_s": round(wall_s, 2)}


def figures(records: list[dict[str, Any]]) -> dict[str, Any]:
    """From the beginning of the first round to the end of the last, on however many nodes there were."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        assert record["failure"] is None, record["failure"]
        for done in record["rounds"]:
            start = datetime.fromisoformat(done["started"]).timestamp()
            spans.setdefault(done["node"], []).append((start, start + done["seconds"]))
    every = sorted(span for of_node in spans.values() for span in of_node)
    gaps = [b[0] - a[1] for of_node in spans.values() for a, b in pairwise(sorted(of_node))]
    measured_s = max(end for _, end in every) - every[0][0]
    rounds_s = sum(end - start for start, end in every)
    return {
        "nodes": len(spans),
        "rounds": len(every),
        "measuring_s": round(measured_s, 2),
        "rounds_s": round(rounds_s, 2),
        "busy_share": round(rounds_s / measured_s / len(spans), 3),
        "gap_ms": {"median": round(1e3 * median(gaps), 1), "worst": round(1e3 * max(gaps), 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ladders", type=int, default=24)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0, help="what a round sleeps")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["PLANTED_NAP_MS"] = "50"
    from fleets import SimulatedFleet

    batches = ",".join(str(i + 1) for i in range(options.ladders))
    cases = ["--rung", "planted_nap", "--batch", batches, "--rounds", "1", "--no-parity"]
    # No round ends before its budget is spent: they all sleep for the same time.
    cases += ["--budget", str(options.seconds), "--width", "0.000001"]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        names = [f"node-{i + 1}" for i in range(options.nodes)]
        fleet = SimulatedFleet(Path(folder), names)
        try:
            environment = fleet.driver_environment(Path(folder) / "driver")
            fleet_options = [*cases, "--on", "ray", "--no-calibrate"]
            results = {
                "no fleet": measure(cases, environment | {"TARE_LOCK": ""}),
                "1 node": measure([*fleet_options, "--node", "name=node-1"], environment),
                f"{options.nodes} nodes": measure(fleet_options, environment),
            }
        finally:
            fleet.close()
    for name, result in results.items():
        gap, busy = result["gap_ms"], result["busy_share"]
        measuring = f"{result['rounds']} rounds in {result['measuring_s']:.1f} s, nodes busy {busy:.0%} of it"
        between = f"{gap['median']:.0f} ms between rounds (worst {gap['worst']:.0f})"
        print(f"{name:10} {measuring}, {between}, whole command {result['command_s']:.0f} s")
    if options.json:
        setting = {"ladders": options.ladders, "slept_s": options.seconds, "load_1min": [load, os.getloadavg()[0]]}
        setting |= {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "ray": _ray_version()}
        setting |= {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"setting": setting, "results": results}, indent=1) + "\n")


def _ray_version() -> str:
    from importlib.metadata import version

    return version("ray")


if __name__ == "__main__":
    main()
