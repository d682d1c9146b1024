"""The profiling worker: prepares a case as a round does, and records traces of some steps."""

import gc
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from statistics import median
from typing import Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, record_function

from tare.errors import Unsupported
from tare.measure.line_marks import LineMarks
from tare.measure.profiler import recording, write_trace
from tare.measure.work import count_work
from tare.protocol.jobs import ProfileJob
from tare.protocol.messages import Profiled, Send, Stage
from tare.rungs.torch.program import TorchProgram
from tare.worker.padding import arguments_of, padding
from tare.worker.preparation import open_program

# Seconds of steps before the profiler, and steps in its own warm-up: it loses the kernels of the first steps it
# sees.
WARM_S = 0.5
WARMUP_STEPS = 3
# As many steps as last this long, within these bounds: enough for a spread, and the trace stays small.
WANTED_S = 0.1
FEWEST_STEPS, MOST_STEPS = 4, 12
HOST_STEPS = 5
# What two steps leave allocated may differ by less than this.
LEAST_BYTES = 1024
# Of a model with more modules, the largest are listed.
MOST_MODULES = 100


def profile(job: ProfileJob, send: Send) -> Profiled:
    case = job.case
    send(Stage("build"))
    with open_program(case, job.cache) as program:
        if not isinstance(program, TorchProgram):
            raise Unsupported(f"torch's profiler does not see into {case.rung}")
        clock = program.clock()
        send(Stage("prepare"))
        clock.time(program.step, 1)
        work = None
        if job.count:
            # A step that cannot be counted is profiled all the same.
            with suppress(Exception):
                work = count_work(program.step)
        if not job.trace:
            return Profiled(work)
        send(Stage("warm-up"))
        step_s = clock.time(program.step, 2).wall_ns / 2e9
        clock.time(program.step, max(2, min(200, math.ceil(WARM_S / max(step_s, 1e-6)))))
        steps = max(FEWEST_STEPS, min(MOST_STEPS, math.ceil(WANTED_S / max(step_s, 1e-6))))
        send(Stage("profile"))
        about = {"case": case.key, "workload": case.workload, "mode": case.mode, "precision": case.precision}
        marks: dict[str, Any] = {**about, "rung": case.rung, "resident": resident_bytes(program)}
        if work:
            marks["work"] = msgspec.to_builtins(work)
        if clock.overlaps:
            marks["host_ns"] = host_time(program.step, clock.synchronize)
        shapes = True
        if program.device.type == "cuda":
            shapes = not shapes_leak(program.step, clock.synchronize, torch.cuda.memory_allocated)
        marks["shapes"] = shapes
        known: dict[str, Any] = {"tare_recorded": {"gross_ns": job.gross_ns}} if job.gross_ns else {}
        if padded := padding(arguments_of(program)):
            known["tare_padding"] = padded
        for path, stacks in ((job.trace, False), (job.stacks, True)):
            if path:
                kept = {"tare_profiled": marks | {"stacks": stacks}, **known}
                record(program.step, clock.synchronize, program.device.type, path, steps, stacks, kept, shapes)
    return Profiled(work)


def host_time(step: Callable[[], Any], synchronize: Callable[[], None]) -> int:
    """Nanoseconds of host time that launching one step takes. Where the device is slower than the host, gross does
    not show it."""
    taken = []
    for _ in range(HOST_STEPS):
        synchronize()
        began = time.perf_counter_ns()
        step()
        taken.append(time.perf_counter_ns() - began)
    synchronize()
    return round(median(taken))


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
    """Writes a trace of `steps` steps, run back to back as they are measured, with the device idle before and
    after. `marks` are written into it as metadata."""
    activities = [ProfilerActivity.CPU]
    # A device that the profiler does not support (mps) is profiled from the host.
    if device != "cpu" and hasattr(ProfilerActivity, device.upper()):
        activities.append(getattr(ProfilerActivity, device.upper()))
    with recording(
        activities, WARMUP_STEPS, steps, record_shapes=shapes, profile_memory=True, with_stack=stacks
    ) as profiler:
        for name, content in marks.items():
            profiler.add_metadata_json(name, json.dumps(content))
        lines = LineMarks()
        for i in range(WARMUP_STEPS + steps):
            if stacks and i == WARMUP_STEPS:
                lines.begin()
            with record_function(f"tare::step#{i - WARMUP_STEPS}"):
                step()
            if i in (WARMUP_STEPS - 1, WARMUP_STEPS + steps - 1):
                synchronize()
            if i == WARMUP_STEPS + steps - 1:
                lines.end()
                # Marked in the trace, because memory that this releases was garbage in cycles and not a leak.
                with record_function("tare::collection"):
                    gc.collect()
            profiler.step()
    write_trace(profiler, path)


def shapes_leak(
    step: Callable[[], Any],
    synchronize: Callable[[], None],
    allocated: Callable[[], int],
    least: int = LEAST_BYTES,
) -> bool:
    """True where steps leave more memory allocated under a profiler that records shapes than without one.

    Such a profiler keeps weak references to tensors, and those that torch.func wraps are then never freed (torch
    2.10 and 2.11): each step of functorch_maml_omniglot leaked 11 GB.
    """

    def growth() -> int:
        gc.collect()
        before = allocated()
        step()
        synchronize()
        gc.collect()
        return allocated() - before

    plain = max(growth(), growth())
    with recording([ProfilerActivity.CPU], 1, 1, record_shapes=True) as profiler:
        growth()
        profiler.step()
        profiled = min(growth(), growth())
    return profiled - plain >= least


def resident_bytes(program: Any) -> dict[str, Any]:
    """Bytes of weights (with buffers) and optimizer state on the device, in total and by module, which a trace
    cannot show because they are older than it. Empty for a program without a torch model."""
    model: Any = getattr(program, "model", None)
    if not (hasattr(model, "named_parameters") and hasattr(model, "named_buffers")):
        return {}
    device = program.device.type
    labels = {path: _label(path, module) for path, module in model.named_modules()}
    tensors = (*model.named_parameters(), *model.named_buffers())
    named = [(labels[name.rpartition(".")[0]], tensor) for name, tensor in tensors]
    modules = {"weights": by_module(named, device)}
    optimizer = getattr(program, "optimizer", None)
    if optimizer is not None:
        states = getattr(optimizer, "state", {}).items()
        owner = {id(tensor): name for name, tensor in named}
        held = [(owner.get(id(key), "no module"), value) for key, state in states for value in state.values()]
        modules["optimizer state"] = by_module(held, device)
    sums = {kind: sum(sizes.values()) for kind, sizes in modules.items()}
    largest = {kind: dict(Counter(sizes).most_common(MOST_MODULES)) for kind, sizes in modules.items()}
    return {**sums, "device": device, "modules": largest}


def _label(path: str, module: Any) -> str:
    """`layer1.0.conv1 (Conv2d)`; torch.compile wraps the model in another, and a scripted module keeps the name of
    its original class."""
    name = path.removeprefix("_orig_mod").removeprefix(".")
    kind = str(getattr(module, "original_name", type(module).__name__))
    return f"{name} ({kind})" if name else kind


def by_module(held: Iterable[tuple[str, Any]], device: str) -> dict[str, int]:
    """Bytes of the tensors on the device. A shared storage counts once, for its first owner; numbers and tensors
    on other devices (an optimizer's step counts) do not count."""
    sizes: dict[str, int] = {}
    seen = set()
    for name, value in held:
        if not hasattr(value, "untyped_storage") or value.device.type != device:
            continue
        storage = value.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            sizes[name] = sizes.get(name, 0) + storage.nbytes()
    return sizes
