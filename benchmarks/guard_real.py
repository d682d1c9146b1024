"""The guard on real measurements: A/A repeats that must raise nothing, planted faults that must be found.

    python -m benchmarks.guard_real [--repeats 20] [--json results/guard/real.json]

Both sides are this checkout; a variable that nothing reads makes one of them "the baseline". The planted workloads
are those of the tests. The exit code is 1 if an A/A repeat raised an alarm or a planted fault was missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parents[1] / "tests" / "support"
# Small cases of different kinds on the CPU, as many rounds as `check` takes by itself.
SMOKE = """
[options]
budget = 1.8
parity = false
[[grid]]
workload = ["mlp", "lstm", "mnist_cnn"]
rung = ["eager"]
batch = [4]
device = ["cpu"]
"""
PLANTED = """
[options]
budget = 3.0
parity = false
[[grid]]
workload = ["{workload}"]
rung = ["eager"]
device = ["cpu"]
threads = [1]
"""
# What is planted: the workload, what is set on the new side, and where it must show.
FAULTS: dict[str, tuple[str, dict[str, str], str]] = {
    "a step that is 7 % longer": ("planted_wait", {"PLANTED_MS": "10.7"}, "gross"),
    "a leak of 64 KiB a step": ("planted_leak", {"PLANTED_LEAK": "65536"}, "leak"),
    "an extra copy": ("planted_wait", {"PLANTED_EXTRA": "copy"}, "bytes_copied"),
    "an extra synchronisation": ("planted_wait", {"PLANTED_EXTRA": "synchronisation"}, "synchronisations"),
}
USUAL = {"PLANTED_MS": "10", "PLANTED_LEAK": "0", "PLANTED_EXTRA": ""}


def check(home: str, plan: str, now: dict[str, str], before: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """One `tare check` of two sides of this checkout; its exit code and its report."""
    path = Path(home) / "plan.toml"
    path.write_text(plan)
    paths = os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "TARE_HOME": home, "TARE_PLUGINS": "planted", "PYTHONPATH": paths, **now}
    command = [sys.executable, "-m", "tare", "check", str(path), "--json"]
    for name, value in before.items():
        command += ["--baseline-env", f"{name}={value}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.returncode, json.loads(done.stdout)


def named(report: dict[str, Any]) -> list[str]:
    """What a report accuses: metrics, leaks, and cases that broke."""
    found = []
    for case in report["cases"]:
        found += [change["metric"] for change in case["changes"] if change["worse"]]
        found += ["leak"] * bool(case["leaks"]) + [case["state"]] * (case["state"] != "compared")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {"repeats": args.repeats, "load_1min": os.getloadavg()[0], "alarms": [], "faults": {}}
    with tempfile.TemporaryDirectory() as home:
        for name, (workload, now, where) in FAULTS.items():
            began = time.monotonic()
            code, report = check(home, PLANTED.format(workload=workload), {**USUAL, **now}, USUAL)
            accused = named(report)
            changes = [c for case in report["cases"] for c in case["changes"] if c["metric"] == where]
            found["faults"][name] = {"exit_code": code, "accused": accused, "found": where in accused,
                                     "changes": changes, "leaks": report["cases"][0]["leaks"]}  # fmt: skip
            said = "found" if where in accused else "MISSED"
            print(f"{name}: {said}, {accused} ({time.monotonic() - began:.0f} s)", flush=True)
        suspected = 0
        for repeat in range(1, args.repeats + 1):
            code, report = check(home, SMOKE, {}, {"TARE_SIDE": "baseline"})
            accused = named(report)
            suspected += sum(c["stage"] != "first" for case in report["cases"] for c in case["changes"])
            found["alarms"] += (
                [{"repeat": repeat, "exit_code": code, "accused": accused}] if accused or code else []
            )
            print(f"A/A {repeat}: {'ALARM ' + str(accused) if accused else 'nothing'}", flush=True)
    found |= {"suspicions_not_confirmed": suspected, "cases": 3}
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    missed = [name for name, fault in found["faults"].items() if not fault["found"]]
    return 1 if found["alarms"] or missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
