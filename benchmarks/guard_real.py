"""The guard on real measurements: A/A repeats that must raise nothing, planted faults that must be found.

    python -m benchmarks.guard_real [--repeats 20] [--json results/guard/real.json]
    python -m benchmarks.guard_real --device cuda --slower 0.03 --repeats 1 [--json results/guard/real-h200.json]

Both sides are this checkout. First the planted workloads of the tests, all in one check, with their faults on
one side; then the zoo's group @smoke against itself, where a variable that nothing reads makes one side "the
baseline". With --json it can be interrupted at any time: what is done is written, what was measured of the next
check waits in a folder beside it, and the same command goes on from there. Of every repeat it keeps what was
accused and what came nearest, with the figures of their rounds. The exit code is 1 if an A/A repeat raised an
alarm or a planted fault was missed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
budget = {budget}
parity = false
[[grid]]
workload = {workloads}
rung = ["eager"]
device = ["{device}"]
threads = [1]
"""
# The workload whose step is made longer, and the figures in which it must show.
SLOWED = "planted_operator"
STEP = ("gross", "gross_p5")
USUAL = {"PLANTED_MS": "10", "PLANTED_LEAK": "0", "PLANTED_EXTRA": "", "PLANTED_UNITS": "100"}


@dataclass(frozen=True)
class Subject:
    """What is measured, and what is planted: the workload, what is set on the new side, where it must show."""

    workloads: list[str]
    device: str
    slower: float

    def faults(self) -> dict[str, tuple[str, set[str]]]:
        """The workload that has it, and where it must show."""
        return {
            f"one operator that makes the step {self.slower:.0%} longer": (
                SLOWED,
                set(STEP),
            ),
            "a leak of 64 KiB a step": ("planted_leak", {"leak"}),
            "an extra copy": ("planted_copy", {"bytes_copied"}),
            "an extra synchronisation": ("planted_synchronisation", {"synchronisations"}),
        }

    def spoilt(self) -> dict[str, str]:
        # The operator is one of two that take equally long.
        units = str(round(100 * (1 + 2 * self.slower)))
        return {**USUAL, "PLANTED_UNITS": units, "PLANTED_LEAK": "65536", "PLANTED_EXTRA": "yes"}

    def thresholds(self) -> str:
        """The usual 7 %; for the planted step four fifths of a smaller one, since what is certainly under the
        threshold is not accused. For its own two figures alone: to tell 2 % of a noisy one, such as how long a
        program takes to prepare, is a hundred rounds."""
        if self.slower >= 0.07:
            return ""
        limits = "".join(f"metric.{name}.threshold = {0.8 * self.slower:.4g}\n" for name in STEP)
        return f'[[case]]\nmatch = "{SLOWED}"\n{limits}'


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
    # Ends the check under way as well; nothing that it measured is lost.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    subject = Subject(args.workloads.split(","), args.device, args.slower)
    found: dict[str, Any] = {"subject": asdict(subject), "faults": {}, "repeats": []}
    if args.json and args.json.exists():
        found = json.loads(args.json.read_text())
        if found["subject"] != asdict(subject):
            raise SystemExit(f"{args.json} is about {found['subject']}; name another file")
    if not found["faults"]:
        with sitting(args.json, "faults") as home:
            found["faults"] = plant(subject, home)
        for name, fault in found["faults"].items():
            print(f"{name}: {'found' if fault['found'] else 'MISSED'}, {fault['accused']}", flush=True)
        write(args.json, found)
    while len(found["repeats"]) < args.repeats:
        with sitting(args.json, f"repeat-{len(found['repeats'])}") as home:
            found["repeats"].append(repeat := repeat_smoke(subject, home))
        said = f"ALARM {repeat['accused']}" if repeat["accused"] or repeat["exit_code"] else "nothing"
        print(f"A/A {len(found['repeats'])} of {args.repeats}: {said} ({repeat['cases']} cases)", flush=True)
        write(args.json, found)
    alarms = [repeat for repeat in found["repeats"] if repeat["accused"] or repeat["exit_code"]]
    missed = [name for name, fault in found["faults"].items() if not fault["found"]]
    return 1 if alarms or missed else 0


@contextmanager
def sitting(path: Path | None, name: str) -> Iterator[Path]:
    """The TARE_HOME of one check; after an interruption it is kept for the next invocation."""
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        home = path.absolute().with_name(f".{path.stem}-{name}")
        home.mkdir(parents=True, exist_ok=True)
        yield home
        shutil.rmtree(home)


def plant(subject: Subject, home: Path) -> dict[str, Any]:
    """All planted faults in one check, and whether each is accused where it must show."""
    faults = subject.faults()
    workloads = json.dumps([workload for workload, _ in faults.values()])
    # A GPU's steps are less noisy.
    budget = 3.0 if subject.device == "cpu" else 1.5
    plan = PLANTED.format(workloads=workloads, device=subject.device, budget=budget)
    code, report, _ = check(home, plan, subject.thresholds(), subject.spoilt(), USUAL)
    cases = {case["case"].partition("/")[0]: case for case in report["cases"]}
    return {name: outcome(cases[workload], code, where) for name, (workload, where) in faults.items()}


def outcome(case: dict[str, Any], code: int, where: set[str]) -> dict[str, Any]:
    accused = named([case])
    return {
        "found": bool(where & set(accused)),
        "exit_code": code,
        "accused": accused,
        "changes": [change for change in case["changes"] if change["metric"] in where],
        "leaks": case["leaks"],
        "call_changes": case["call_changes"],
    } | circumstances()


def repeat_smoke(subject: Subject, home: Path) -> dict[str, Any]:
    """One A/A check of the smoke zoo by the usual thresholds; how long it took is known only if it was not
    interrupted."""
    began, whole = time.monotonic(), not any(home.iterdir())
    plan = SMOKE.format(workloads=json.dumps(subject.workloads), device=subject.device)
    code, report, kept = check(home, plan, "", {}, {"TARE_SIDE": "baseline"})
    changes = [change for case in report["cases"] for change in case["changes"]]
    return {
        "exit_code": code,
        "accused": named(report["cases"]),
        "suspected": sum(change["stage"] != "first" for change in changes),
        "cases": len(report["cases"]),
        "figures": len(changes),
        "seconds": time.monotonic() - began if whole else None,
        **kept,
    } | circumstances()


def circumstances() -> dict[str, Any]:
    return {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load_1min": os.getloadavg()[0]}


def check(
    home: Path, plan: str, thresholds: str, now: dict[str, str], before: dict[str, str]
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """One `tare check` of two sides of this checkout; its exit code, its report, what is kept of its rounds."""
    path = home / "plan.toml"
    path.write_text(plan)
    path.with_name("plan.guard.toml").write_text(thresholds)
    paths = os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "TARE_HOME": str(home), "TARE_PLUGINS": "planted", "PYTHONPATH": paths, **now}
    command = [sys.executable, "-m", "tare", "check", str(path), "--json"]
    if (home / "records.db").exists():
        command.append("--resume")
    for name, value in before.items():
        command += ["--baseline-env", f"{name}={value}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"tare check ended with {done.returncode}: {done.stderr[-3000:]}")
    report = json.loads(done.stdout)
    return done.returncode, report, evidence(report, home / "records.db")


def named(cases: list[dict[str, Any]]) -> list[str]:
    """What is accused: metrics, leaks, and cases that broke."""
    found = []
    for case in cases:
        found += [change["metric"] for change in case["changes"] if change["worse"]]
        found += ["leak"] * bool(case["leaks"]) + [case["state"]] * (case["state"] != "compared")
    return found


def write(path: Path | None, found: dict[str, Any]) -> None:
    """Written atomically, because the next invocation resumes from this file."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(found, indent=1) + "\n")
        partial.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
