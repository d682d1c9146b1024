"""Records traces of every inefficiency and its fixed version on a GPU. Usage: record_inefficiencies.py OUT (writes
OUT/inefficiencies.tar)

Each document has a key `tare_recorded`: the step without a profiler, and torch's own table of operators."""

import contextlib
import gzip
import json
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from inefficiencies import INEFFICIENCIES, Step
from torch.profiler import ProfilerActivity

from tare.measure.profiler import recording

FIELDS = (
    "key", "count", "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total",
    "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage",
)  # fmt: skip


def gross_ns(
    steps: Sequence[Step],
    blocks: int = 31,
    most: float = 0.6,
    budget_s: float = 5.0,
    synchronize: Step = torch.cuda.synchronize,
) -> list[float]:
    """The time of each step, back to back. Blocks of the steps alternate, because a machine changes its speed; of
    all blocks the first quartile counts, because disturbances of the host cost more than some inefficiencies. A
    step that recompiles each time takes seconds: the blocks end with the budget, after at least one of each."""
    counts = [_count(step, most / blocks, synchronize) for step in steps]
    taken: list[list[float]] = [[] for _ in steps]
    end = time.perf_counter() + budget_s
    for block in range(blocks):
        if block and time.perf_counter() > end:
            break
        for step, count, times in zip(steps, counts, taken, strict=True):
            begin = time.perf_counter_ns()
            for _ in range(count):
                step()
            synchronize()
            times.append((time.perf_counter_ns() - begin) / count)
    return [sorted(times)[len(times) // 4] for times in taken]


def _count(step: Step, seconds: float, synchronize: Step) -> int:
    """How many steps take about so long, at most twenty."""
    for _ in range(2):
        synchronize()
        started = time.perf_counter()
        step()
        synchronize()
    return max(1, min(20, int(seconds / max(time.perf_counter() - started, 1e-6))))


def profiled(step: Step, steps: int, stack: bool) -> Any:
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with recording(activities, 2, steps, record_shapes=True, profile_memory=True, with_stack=stack) as p:
        for name, content in getattr(step, "metadata", {}).items():
            p.add_metadata_json(name, json.dumps(content))
        for _ in range(2 + steps):
            step()
            torch.cuda.synchronize()
            p.step()
    return p


def averages(p: Any) -> list[list[Any]]:
    """torch's own table: FIELDS of each row, and last the kind of device, by which torch groups as well: an
    annotation has one row for the host, and one of the same name for its shadow on the device."""
    return [[*(getattr(row, field) for field in FIELDS), row.device_type.name] for row in p.key_averages()]


def document(p: Any, path: Path, **recorded: Any) -> dict[str, Any]:
    p.export_chrome_trace(str(path))
    found: dict[str, Any] = json.loads(path.read_text())
    recorded |= {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "averages": averages(p)}
    return found | {"tare_recorded": recorded}


def main(out: Path) -> None:
    chosen = sys.argv[2:] or list(INEFFICIENCIES)
    folder = Path("/tmp/inefficiencies")
    folder.mkdir(exist_ok=True)
    for name in chosen:
        program = INEFFICIENCIES[name]
        try:
            bad, good = program.make("cuda")
            times = dict(zip(("inefficient", "fixed"), gross_ns((bad, good)), strict=True))
            for label, step in (("inefficient", bad), ("fixed", good)):
                p = profiled(step, program.steps, program.stack)
                found = document(
                    p, folder / "x.json", name=name, label=label, gross_ns=times[label], rule=program.rule
                )
                path = folder / f"{label}-{name}.json.gz"
                path.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), 9))
                print(
                    name,
                    label,
                    f"{times[label] / 1e3:.1f} us",
                    len(found["traceEvents"]),
                    path.stat().st_size,
                    flush=True,
                )
        except Exception as error:  # noqa: BLE001
            print(name, "FAILED", type(error).__name__, str(error)[:300], flush=True)
    (folder / "x.json").unlink()
    with contextlib.closing(tarfile.open(out / "inefficiencies.tar", "w")) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
