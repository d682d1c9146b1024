"""The guard on real measurements: A/A repeats that must raise nothing, planted faults that must be found.

    python -m benchmarks.guard_real [--repeats 20] [--json results/guard/real.json]

Both sides are this checkout; a variable that nothing reads makes one of them "the baseline". Measured are the
zoo's group @smoke and the planted workloads of the tests. With --json it can be interrupted at any time: every
fault and every repeat is written when it is done, and the same command goes on from there. The exit code is 1 if
an A/A repeat raised an alarm or a planted fault was missed.
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
# As many rounds as `check` takes by itself.
SMOKE = """
[options]
budget = 0.9
parity = false
[[grid]]
workload = {workloads}
rung = ["eager"]
device = ["cpu"]
smoke = true
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
    "one operator that makes the step 7 % longer": ("planted_operator", {"PLANTED_UNITS": "114"}, "gross"),
    "a leak of 64 KiB a step": ("planted_leak", {"PLANTED_LEAK": "65536"}, "leak"),
    "an extra copy": ("planted_wait", {"PLANTED_EXTRA": "copy"}, "bytes_copied"),
    "an extra synchronisation": ("planted_wait", {"PLANTED_EXTRA": "synchronisation"}, "synchronisations"),
}
USUAL = {"PLANTED_MS": "10", "PLANTED_LEAK": "0", "PLANTED_EXTRA": "", "PLANTED_UNITS": "100"}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20, help="how many there are to be in all")
    parser.add_argument("--workloads", default="@smoke", help="groups and names, separated by commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    workloads = args.workloads.split(",")
    found: dict[str, Any] = {"workloads": workloads, "faults": {}, "repeats": []}
    if args.json and args.json.exists():
        found = json.loads(args.json.read_text())
        if found["workloads"] != workloads:
            raise SystemExit(f"{args.json} is about {found['workloads']}; name another file")
    for name in FAULTS:
        if name not in found["faults"]:
            found["faults"][name] = fault = plant(name)
            print(f"{name}: {'found' if fault['found'] else 'MISSED'}, {fault['accused']}", flush=True)
            write(args.json, found)
    while len(found["repeats"]) < args.repeats:
        found["repeats"].append(repeat := repeat_smoke(workloads))
        said = f"ALARM {repeat['accused']}" if repeat["accused"] or repeat["exit_code"] else "nothing"
        seconds = f"{repeat['seconds']:.0f} s, {repeat['cases']} cases"
        print(f"A/A {len(found['repeats'])} of {args.repeats}: {said} ({seconds})", flush=True)
        write(args.json, found)
    alarms = [repeat for repeat in found["repeats"] if repeat["accused"] or repeat["exit_code"]]
    missed = [name for name, fault in found["faults"].items() if not fault["found"]]
    return 1 if alarms or missed else 0


def plant(name: str) -> dict[str, Any]:
    """One planted fault, and whether it is accused where it must show."""
    workload, now, where = FAULTS[name]
    code, report = check(PLANTED.format(workload=workload), {**USUAL, **now}, USUAL)
    (case,) = report["cases"]
    accused = named(report)
    return {
        "found": where in accused,
        "exit_code": code,
        "accused": accused,
        "changes": [change for change in case["changes"] if change["metric"] == where],
        "leaks": case["leaks"],
        "differing": case["differing"],
    } | circumstances()


def repeat_smoke(workloads: list[str]) -> dict[str, Any]:
    """One A/A check of the smoke zoo."""
    began = time.monotonic()
    code, report = check(SMOKE.format(workloads=json.dumps(workloads)), {}, {"TARE_SIDE": "baseline"})
    changes = [change for case in report["cases"] for change in case["changes"]]
    return {
        "exit_code": code,
        "accused": named(report),
        "suspected": sum(change["stage"] != "first" for change in changes),
        "cases": len(report["cases"]),
        "figures": len(changes),
        "seconds": time.monotonic() - began,
    } | circumstances()


def circumstances() -> dict[str, Any]:
    return {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load_1min": os.getloadavg()[0]}


def check(plan: str, now: dict[str, str], before: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """One `tare check` of two sides of this checkout; its exit code and its report."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "plan.toml"
        path.write_text(plan)
        paths = os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, "TARE_HOME": home, "TARE_PLUGINS": "planted", "PYTHONPATH": paths, **now}
        command = [sys.executable, "-m", "tare", "check", str(path), "--json"]
        for name, value in before.items():
            command += ["--baseline-env", f"{name}={value}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"tare check ended with {done.returncode}: {done.stderr[-3000:]}")
    return done.returncode, json.loads(done.stdout)


def named(report: dict[str, Any]) -> list[str]:
    """What a report accuses: metrics, leaks, and cases that broke."""
    found = []
    for case in report["cases"]:
        found += [change["metric"] for change in case["changes"] if change["worse"]]
        found += ["leak"] * bool(case["leaks"]) + [case["state"]] * (case["state"] != "compared")
    return found


def write(path: Path | None, found: dict[str, Any]) -> None:
    """Whole or not at all: the file is what the next sitting goes on from."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(found, indent=1) + "\n")
        partial.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
