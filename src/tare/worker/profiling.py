"""The profiling worker: prepares a case like a round does, and records traces of it. It times only the host."""

import gc
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Any

import msgspec

from tare.protocol.jobs import ProfileJob
from tare.protocol.messages import Counted, Profiled, Stage
from tare.records.work import Work
from tare.worker.profiler_memory import held_for_shapes
from tare.worker.resident import resident_bytes

# Steps before the profiler, and steps in its own warm-up: it loses the kernels of the first steps it sees.
WARM_S = 0.5
WARMUP_STEPS = 3
# As many steps as last this long, within these bounds: enough for a spread, and a trace of bearable size.
WANTED_S = 0.1
FEWEST_STEPS, MOST_STEPS = 4, 12
HOST_STEPS = 5


def profile(job: ProfileJob, send: Callable[[Any], None]) -> None:
    import torch

    from tare.measure.devices import make_clock
    from tare.rungs import get_rung
    from tare.rungs.torch.numerics import pin_flags
    from tare.worker.compiler_cache import use_cache
    from tare.workloads import get_workload

    case = job.case
    rung = get_rung(case.rung)
    pin_flags(case)
    use_cache(job.cache if rung.caches else None)
    send(Stage("build"))
    program = rung.prepare(get_workload(case.workload), case)
    clock = make_clock(program.device)
    send(Stage("prepare"))
    clock.time(program.step, 1)
    send(Stage("warm-up"))
    step_s = clock.time(program.step, 2).wall_ns / 2e9
    clock.time(program.step, max(2, min(200, math.ceil(WARM_S / max(step_s, 1e-6)))))
    steps = max(FEWEST_STEPS, min(MOST_STEPS, math.ceil(WANTED_S / max(step_s, 1e-6))))
    send(Stage("profile"))
    about = {"case": case.key, "workload": case.workload, "mode": case.mode, "precision": case.precision}
    marks: dict[str, Any] = {**about, "rung": case.rung, "resident": resident_bytes(program)}
    if job.count and (work := _counted(program.step)):
        marks["work"] = msgspec.to_builtins(work)
        send(Counted(work))
    if clock.overlaps:
        marks["host_ns"] = host_time(program.step, clock.synchronize)
    shapes = True
    if program.device.type == "cuda":
        shapes = not held_for_shapes(program.step, clock.synchronize, torch.cuda.memory_allocated)
    marks["shapes"] = shapes
    known = {"tare_recorded": {"gross_ns": job.gross_ns}} if job.gross_ns else {}
    for path, stacks in ((job.trace, False), (job.stacks, True)):
        if path:
            kept = {"tare_profiled": marks | {"stacks": stacks}, **known}
            record(program.step, clock.synchronize, program.device.type, path, steps, stacks, kept, shapes)
    program.close()
    send(Profiled(steps))


def _counted(step: Callable[[], Any]) -> Work | None:
    """The work of a step; None where it cannot be counted, which is no reason not to profile it."""
    from tare.measure.work import count_work

    with suppress(Exception):
        return count_work(step)
    return None


def host_time(step: Callable[[], Any], synchronize: Callable[[], None]) -> int:
    """Nanoseconds that the host is busy with one step, which it only hands to the device: where the device is the
    slower of the two, neither gross nor a profile tells."""
    found = []
    for _ in range(HOST_STEPS):
        synchronize()
        began = time.perf_counter_ns()
        step()
        found.append(time.perf_counter_ns() - began)
    synchronize()
    return round(median(found))


def record(
    step: Callable[[], Any],
    synchronize: Callable[[], None],
    device: str,
    path: str,
    steps: int,
    stacks: bool,
    marks: dict[str, dict[str, Any]],
    shapes: bool = True,
) -> None:
    """A trace of so many steps, run back to back as they are measured; the device is empty before and after. The
    marks are written into it, by their names."""
    from torch.profiler import ProfilerActivity, record_function

    from tare.measure.profiler import recording, write_trace

    activities = [ProfilerActivity.CPU]
    # A device whose side the profiler cannot see (mps) is profiled from the host.
    if device != "cpu" and hasattr(ProfilerActivity, device.upper()):
        activities.append(getattr(ProfilerActivity, device.upper()))
    with recording(
        activities, WARMUP_STEPS, steps, record_shapes=shapes, profile_memory=True, with_stack=stacks
    ) as profiler:
        for name, content in marks.items():
            profiler.add_metadata_json(name, json.dumps(content))
        for i in range(WARMUP_STEPS + steps):
            with record_function(f"tare::step#{i - WARMUP_STEPS}"):
                step()
            if i in (WARMUP_STEPS - 1, WARMUP_STEPS + steps - 1):
                synchronize()
            if i == WARMUP_STEPS + steps - 1:
                # What this releases was garbage in cycles: no leak, however much of it each step has left.
                with record_function("tare::collection"):
                    gc.collect()
            profiler.step()
    write_trace(profiler, path)
