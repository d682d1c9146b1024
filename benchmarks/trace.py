"""Reads and breaks down a trace, against HTA (HolisticTraceAnalysis) on the same file in the same run.

    python -m benchmarks.trace [--whole] [--megabytes 20,100] [--hta PYTHON] [--json FILE]

`--hta` names an interpreter that has HTA installed ('' skips HTA). The traces repeat a recorded trace of 3 MB with
shifted times up to the given size, in the profiler's layout. Each side runs in processes of its own, in turns. The
result is the least CPU time without imports, and the peak memory above that after the imports. Both sides also
explain idle time. With `--whole` it is the whole of `tare explain FILE`, with findings, tables and memory, against
HTA's calls for what it has of that: temporal and idle breakdown, kernels, launches, and overlap of communication.
Neither side renders in that time: HTA's calls return tables, and what tare's printing takes is `render_s`. Wall
time is recorded beside CPU time; on a machine with other work it says little. The exit code is 1 if tare is less
than 10 times as fast or needs more than 1000 bytes per event.
"""

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "tests" / "trace" / "recorded" / "resnet50-train-b32-eager-amp.json.gz"
FASTER, BYTES_PER_EVENT = 10.0, 1000.0
LARGE_MEGABYTES = 500

PEAK = """
import resource
def peak():
    try:  # Not ru_maxrss, which begins with the peak of the process that started this one.
        with open("/proc/self/status") as file:
            return 1024 * int(next(line for line in file if line.startswith("VmHWM")).split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
OURS = """
import json, sys, time
from pathlib import Path
import numpy.ma  # Imported lazily by numpy; imports do not count, on either side.
from tare.trace.breakdown import breakdown
from tare.trace.idle import explain_idle
from tare.trace.read import read
before = peak()
begun, start = time.perf_counter(), time.process_time()
trace = read(Path(sys.argv[1]))
parsed = time.process_time()
parts, idle = breakdown(trace), explain_idle(trace)
assert parts.window == parts.active + parts.movement + parts.idle and parts.idle == idle.idle
done, wall = time.process_time(), time.perf_counter() - begun
print(json.dumps({"parse_s": parsed - start, "breakdown_s": done - parsed, "peak_bytes": peak() - before,
                  "wall_s": wall, "events": trace.events}))
"""
THEIRS = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
before = peak()
begun, start = time.perf_counter(), time.process_time()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
parsed = time.process_time()
analysis.get_temporal_breakdown(visualize=False)
analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
done, wall = time.process_time(), time.perf_counter() - begun
print(json.dumps({"parse_s": parsed - start, "breakdown_s": done - parsed, "peak_bytes": peak() - before,
                  "wall_s": wall}))
"""

OURS_WHOLE = """
import io, json, sys, time
from contextlib import redirect_stdout
import numpy.ma
from tare.commands.explain import explain_files
from tare.findings.finding import all_rules
from tare.trace.formats import all_formats
from tare.report.explain import print_report
all_rules(), all_formats()
before = peak()
begun, start = time.perf_counter(), time.process_time()
report = explain_files([sys.argv[1]])
done, wall = time.process_time(), time.perf_counter() - begun
size = peak() - before
with redirect_stdout(io.StringIO()):
    print_report(report, 20, None)
rendered = time.process_time()
parts = report.explanations[0].breakdown
assert parts.window == parts.active + parts.communicating + parts.movement + parts.idle
from tare.trace.read import read
from pathlib import Path
print(json.dumps({"parse_s": 0.0, "breakdown_s": done - start, "peak_bytes": size,
                  "wall_s": wall, "render_s": rendered - done, "events": read(Path(sys.argv[1])).events}))
"""
THEIRS_WHOLE = THEIRS.replace("parsed = time.process_time()", "parsed = start").replace(
    "done, wall =",
    """analysis.get_gpu_kernel_breakdown(visualize=False)
analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
done, wall =""",
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", default="20,100")
    parser.add_argument("--hta", default=sys.executable)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in map(int, args.megabytes.split(",")):
            path = Path(folder) / f"{megabytes}.json"
            repeat(path, megabytes << 20)
            # A size that takes minutes is measured once.
            repeats = 1 if megabytes >= LARGE_MEGABYTES else args.repeats
            rows.append(compare(path, megabytes, args.hta, repeats, args.whole))
            path.unlink()
    kept = all(row["promises_kept"] for row in rows)
    if args.json:
        document = {"machine": machine(args.hta), "traces": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if kept else 1


def machine(hta: str) -> dict[str, Any]:
    """Versions and machine. A load above the number of cores means that other processes were running."""
    query = "import importlib.metadata as m; print(m.version('HolisticTraceAnalysis'))"
    theirs = subprocess.run([hta, "-c", query], capture_output=True, text=True).stdout.strip() if hta else None
    return {
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "msgspec": version("msgspec"),
        "numpy": version("numpy"),
        "hta": theirs,
    }


def compare(path: Path, megabytes: int, hta: str, repeats: int, whole: bool = False) -> dict[str, Any]:
    mine, other = (OURS_WHOLE, THEIRS_WHOLE) if whole else (OURS, THEIRS)
    turns = [(measure(sys.executable, mine, path), measure(hta, other, path)) for _ in range(repeats)]
    ours, theirs = (best(list(side)) for side in zip(*turns, strict=True))
    per_event = ours["peak_bytes"] / ours["events"]
    row: dict[str, Any] = {
        "megabytes": megabytes,
        "repeats": repeats,
        "whole": whole,
        "ours": ours,
        "theirs": theirs,
        "bytes_per_event": per_event,
    }
    line = f"{megabytes} MB, {ours['events']:,} events: {total(ours):.2f} s, {per_event:.0f} bytes an event"
    row["promises_kept"] = per_event <= BYTES_PER_EVENT
    if "failed" in theirs:
        line += f"; HTA: {theirs['failed']}"
    else:
        row["times_faster"] = total(theirs) / total(ours)
        row["promises_kept"] = row["promises_kept"] and row["times_faster"] >= FASTER
        line += f"; HTA {total(theirs):.2f} s, {theirs['peak_bytes'] / ours['events']:.0f} bytes an event"
        line += f": {row['times_faster']:.1f} times faster"
    print(line + ("" if row["promises_kept"] else "   BROKEN"), flush=True)
    return row


def best(turns: list[dict[str, Any]]) -> dict[str, Any]:
    return next((turn for turn in turns if "failed" in turn), None) or min(turns, key=total)


def total(turn: dict[str, Any]) -> float:
    return float(turn["parse_s"] + turn["breakdown_s"])


def measure(python: str, program: str, path: Path) -> dict[str, Any]:
    if not python:
        return {"failed": "not asked for"}
    done = subprocess.run([python, "-c", PEAK + program, str(path)], capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def repeat(path: Path, size: int) -> None:
    """Writes the recorded steps repeatedly, with shifted times and ids, until the text has the size."""
    document = json.loads(gzip.decompress(RECORDED.read_bytes()))
    events = document.pop("traceEvents")
    times = [event["ts"] for event in events if event.get("ph") == "X"]
    span = max(times) - min(times) + 10_000
    with path.open("w") as file:
        file.write(json.dumps(document)[:-1] + ', "traceEvents": [\n')
        written, copies = 0, 0
        while written < size:
            text = ",\n".join(format_event(shifted(event, copies, span)) for event in events)
            written += file.write((",\n" if copies else "") + text)
            copies += 1
        file.write("]}")


def format_event(event: dict[str, Any]) -> str:
    """An event with the line breaks of torch.profiler, since these decide how much text there is to read."""
    lines = {
        "ph": "cat name pid tid" if event.get("ph") == "X" else "id pid tid ts",
        "ts": "dur",
        "cat": "name bp",
    }
    rest, text = dict(event), []
    args = rest.pop("args", None)
    for first, others in lines.items():
        line = {key: rest.pop(key) for key in (first, *others.split()) if key in rest}
        text += [json.dumps(line)[1:-1]] if line else []
    text += [json.dumps(rest)[1:-1]] if rest else []
    if args is not None:
        text.append('"args": {\n      ' + json.dumps(args)[1:-1] + "\n    }")
    return "  {\n    " + ",\n    ".join(text) + "\n  }"


def shifted(event: dict[str, Any], copy: int, span: float) -> dict[str, Any]:
    copied = dict(event)
    if "ts" in copied:
        copied["ts"] = round(copied["ts"] + copy * span, 3)
    args = copied.get("args")
    if args and "correlation" in args:
        copied["args"] = {**args, "correlation": args["correlation"] + copy * 1_000_000}
    if str(copied.get("name", "")).startswith("ProfilerStep#"):
        copied["name"] = f"ProfilerStep#{copy}"
    return copied


if __name__ == "__main__":
    sys.exit(main())
