"""The guard on real measurements: A/A repeats that must raise nothing, planted faults that must be found.

    python -m benchmarks.guard_real [--repeats 20] [--json results/guard/real.json]
    python -m benchmarks.guard_real --device cuda --slower 0.03 --repeats 1 [--json results/guard/real-h200.json]

Both sides are this checkout; a variable that nothing reads makes one of them "the baseline". Measured are the
zoo's group @smoke and the planted workloads of the tests. With --json it can be interrupted at any time: every
fault and every repeat is written when it is done, and the same command goes on from there. Of every repeat it
keeps what was accused and what came nearest, with the figures of their rounds. The exit code is 1 if an A/A repeat
raised an alarm or a planted fault was missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.guard_evidence import evidence

SUPPORT = Path(__file__).parents[1] / "tests" / "support"
# As many rounds as `check` takes by itself.
SMOKE = """
[options]
budget = 0.9
parity = false
[[grid]]
workload = {workloads}
rung = ["eager"]
device = ["{device}"]
smoke = true
"""
PLANTED = """
[options]
budget = 3.0
parity = false
[[grid]]
workload = ["{workload}"]
rung = ["eager"]
device = ["{device}"]
threads = [1]
"""
USUAL = {"PLANTED_MS": "10", "PLANTED_LEAK": "0", "PLANTED_EXTRA": "", "PLANTED_UNITS": "100"}


@dataclass(frozen=True)
class Subject:
    """What is measured, and what is planted: the workload, what is set on the new side, where it must show."""

    workloads: list[str]
    device: str
    slower: float

    def faults(self) -> dict[str, tuple[str, dict[str, str], set[str]]]:
        # The operator is one of two that take equally long.
        units = {"PLANTED_UNITS": str(round(100 * (1 + 2 * self.slower)))}
        return {
            f"one operator that makes the step {self.slower:.0%} longer": (
                "planted_operator",
                units,
                {"gross", "gross_quiet"},
            ),
            "a leak of 64 KiB a step": ("planted_leak", {"PLANTED_LEAK": "65536"}, {"leak"}),
            "an extra copy": ("planted_wait", {"PLANTED_EXTRA": "copy"}, {"bytes_copied"}),
            "an extra synchronisation": (
                "planted_wait",
                {"PLANTED_EXTRA": "synchronisation"},
                {"synchronisations"},
            ),
        }

    def thresholds(self) -> str:
        """The usual 7 %, or what is just enough to have the planted step reported."""
        return f"threshold = {min(0.07, self.slower)}\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=20, help="how many there are to be in all")
    parser.add_argument("--workloads", default="@smoke", help="groups and names, separated by commas")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--slower", type=float, default=0.07, help="by how much the planted operator makes the step longer"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    subject = Subject(args.workloads.split(","), args.device, args.slower)
    found: dict[str, Any] = {"subject": asdict(subject), "faults": {}, "repeats": []}
    if args.json and args.json.exists():
        found = json.loads(args.json.read_text())
        if found["subject"] != asdict(subject):
            raise SystemExit(f"{args.json} is about {found['subject']}; name another file")
    for name in subject.faults():
        if name not in found["faults"]:
            found["faults"][name] = fault = plant(subject, name)
            print(f"{name}: {'found' if fault['found'] else 'MISSED'}, {fault['accused']}", flush=True)
            write(args.json, found)
    while len(found["repeats"]) < args.repeats:
        found["repeats"].append(repeat := repeat_smoke(subject))
        said = f"ALARM {repeat['accused']}" if repeat["accused"] or repeat["exit_code"] else "nothing"
        seconds = f"{repeat['seconds']:.0f} s, {repeat['cases']} cases"
        print(f"A/A {len(found['repeats'])} of {args.repeats}: {said} ({seconds})", flush=True)
        write(args.json, found)
    alarms = [repeat for repeat in found["repeats"] if repeat["accused"] or repeat["exit_code"]]
    missed = [name for name, fault in found["faults"].items() if not fault["found"]]
    return 1 if alarms or missed else 0


def plant(subject: Subject, name: str) -> dict[str, Any]:
    """One planted fault, and whether it is accused where it must show."""
    workload, now, where = subject.faults()[name]
    plan = PLANTED.format(workload=workload, device=subject.device)
    code, report, _ = check(plan, subject.thresholds(), {**USUAL, **now}, USUAL)
    (case,) = report["cases"]
    accused = named(report)
    return {
        "found": bool(where & set(accused)),
        "exit_code": code,
        "accused": accused,
        "changes": [change for change in case["changes"] if change["metric"] in where],
        "leaks": case["leaks"],
        "differing": case["differing"],
    } | circumstances()


def repeat_smoke(subject: Subject) -> dict[str, Any]:
    """One A/A check of the smoke zoo."""
    began = time.monotonic()
    plan = SMOKE.format(workloads=json.dumps(subject.workloads), device=subject.device)
    code, report, kept = check(plan, subject.thresholds(), {}, {"TARE_SIDE": "baseline"})
    changes = [change for case in report["cases"] for change in case["changes"]]
    return {
        "exit_code": code,
        "accused": named(report),
        "suspected": sum(change["stage"] != "first" for change in changes),
        "cases": len(report["cases"]),
        "figures": len(changes),
        "seconds": time.monotonic() - began,
        **kept,
    } | circumstances()


def circumstances() -> dict[str, Any]:
    return {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load_1min": os.getloadavg()[0]}


def check(
    plan: str, thresholds: str, now: dict[str, str], before: dict[str, str]
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """One `tare check` of two sides of this checkout; its exit code, its report, what is kept of its rounds."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "plan.toml"
        path.write_text(plan)
        path.with_name("plan.guard.toml").write_text(thresholds)
        paths = os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, "TARE_HOME": home, "TARE_PLUGINS": "planted", "PYTHONPATH": paths, **now}
        command = [sys.executable, "-m", "tare", "check", str(path), "--json"]
        for name, value in before.items():
            command += ["--baseline-env", f"{name}={value}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            raise SystemExit(f"tare check ended with {done.returncode}: {done.stderr[-3000:]}")
        report = json.loads(done.stdout)
        return done.returncode, report, evidence(report, Path(home) / "records.db")


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
