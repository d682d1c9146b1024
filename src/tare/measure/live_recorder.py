"""Records steady steps of the script that it is loaded into, which need not be changed for that.

`tare explain --live` copies this file onto the path of a command (tare.execute.live). The command's Python need
not have tare, and may be older: this file needs torch and the standard library alone.

A step ends where the optimizer has stepped or, in a script without one, where the outermost module has returned.
Steps are awaited until they are steady, then timed without the profiler, and then recorded, without and with
stacks. Whatever fails here ends the recording, never the script.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

# In the folder that the parent and the script share.
SETTINGS, EVENTS, CLAIM = "settings.json", "events.jsonl", "claim"
TRACES = {False: "trace.json", True: "stacks.json"}
# A block of steps lasts this long and has so many steps; one of slow steps ends after MOST_NS.
BLOCK_NS, BLOCK_STEPS, MOST_NS = 250_000_000, 3, 5_000_000_000
# Steps are steady if a block takes as long as the block before it, to this share.
STEADY = 0.1
MOST_WARM_BLOCKS = 40
GROSS_BLOCKS, HOST_STEPS = 3, 5
# Of the profiler itself: it loses kernels of the first steps that it sees.
PROFILER_WARMUP = 3
# As many steps are recorded as last this long, within these bounds.
WANTED_NS, FEWEST_STEPS, MOST_STEPS = 100_000_000, 4, 12
# Where an optimizer exists, forwards count as steps only after this time without a step of it: a training script
# may evaluate first, and may run many forwards for one step.
PATIENCE_NS = 30_000_000_000
COMPILED_WARNING = "Using `torch.compile\\(module\\)` when there are global hooks"

# What lets steps pass, one with each `yield`, and returns what it found.
Course = Generator[None, None, Any]


def install(path: str) -> None:
    """Waits for the script to import torch. Nothing happens in a process that comes after the recorded one."""
    folder = Path(path)
    if (folder / CLAIM).exists():
        return
    say(folder, "loaded")
    sys.meta_path.insert(0, TorchImport(folder))


def say(folder: Path, event: str, **details: Any) -> None:
    """Appends a line to the events, as one write: several processes may do so. Nobody listens any more where the
    folder is gone."""
    line = json.dumps({"event": event, "pid": os.getpid(), **details}) + "\n"
    with suppress(OSError):
        number = os.open(folder / EVENTS, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(number, line.encode())
        finally:
            os.close(number)


class TorchImport:
    """On sys.meta_path: finds torch as anybody would, and begins to record once it has been imported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            # The script may look for it again, on another path.
            sys.meta_path.insert(0, self)
            return spec
        spec.loader = TorchLoader(spec.loader, self._folder)  # type: ignore[assignment]
        return spec


class TorchLoader:
    """torch's own loader, which nobody sees this one instead of."""

    def __init__(self, loader: Any, folder: Path) -> None:
        self._loader, self._folder = loader, folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            LiveRecorder(self._folder, module)
        except Exception as error:  # noqa: BLE001
            say(self._folder, "failed", why=_one_line(error))


class LiveRecorder:
    def __init__(self, folder: Path, torch: Any) -> None:
        self._folder, self._torch = folder, torch
        self._settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text())
        self._hooks: list[Any] = []
        self._begin()
        say(folder, "torch", version=str(torch.__version__))
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    # Steps

    def _begin(self) -> None:
        self._pid, self._seen = os.getpid(), {"optimizer": 0, "forward": 0}
        self._stage, self._claimed = "waiting for a first step", False
        # What ends a step: an optimizer or a module, on a thread. The counts are those of the optimizers.
        self._boundary: Any = None
        self._counts: dict[Any, int] = {}
        self._label, self._first_ns = "", 0
        self._course: Course | None = None
        self._add_hooks()

    def _add_hooks(self) -> None:
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_post_hook

        is_compiling = getattr(getattr(self._torch, "compiler", None), "is_compiling", lambda: False)

        # torch.compile traces hooks too: there they do nothing, so that compiled code is what it was.
        def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
            if not is_compiling():
                self._optimizer_stepped(optimizer)

        def called(module: Any, args: Any) -> None:  # noqa: ARG001
            if not is_compiling():
                self._called_first(module)

        # A compiled module warns of such a hook, which is gone before it could matter.
        warnings.filterwarnings("ignore", message=COMPILED_WARNING)
        self._filter = warnings.filters[0]
        self._hooks = [register_optimizer_step_post_hook(stepped), register_module_forward_pre_hook(called)]

    def _optimizer_stepped(self, optimizer: Any) -> None:
        self._seen["optimizer"] += 1
        if self._claimed and self._boundary not in self._counts:
            # A script that only ran forwards is being recorded.
            return
        key = (threading.get_ident(), id(optimizer))
        if not self._counts:
            self._remove_hooks(self._hooks[1:])
            self._start(key, f"{type(optimizer).__name__}.step")
        self._counts[key] = self._counts.get(key, 0) + 1
        if key == self._boundary:
            self._label = f"{type(optimizer).__name__}.step"
            self._advance()

    def _called_first(self, module: Any) -> None:
        """The first module with weights that the script calls is the outermost one."""
        if self._counts or next(module.parameters(), None) is None:
            return
        self._remove_hooks(self._hooks[1:])
        name = type(getattr(module, "_orig_mod", module)).__name__
        key = (threading.get_ident(), id(module))

        def returned(module: Any, args: Any, output: Any) -> None:  # noqa: ARG001
            if threading.get_ident() == key[0] and not self._counts:
                self._seen["forward"] += 1
                self._advance()

        self._hooks.append(module.register_forward_hook(returned))
        self._start(key, f"the forward of {name}")

    def _start(self, boundary: Any, label: str) -> None:
        self._boundary, self._label, self._course = boundary, label, None

    def _advance(self) -> None:
        """A step has ended."""
        if os.getpid() != self._pid or self._is_capturing():
            return
        try:
            if self._course is None:
                self._first_ns, self._course = time.perf_counter_ns(), self._record_script()
            next(self._course)
        except StopIteration:
            self._remove_hooks(self._hooks)
        except Exception as error:  # noqa: BLE001
            self._remove_hooks(self._hooks)
            say(self._folder, "failed", why=_one_line(error))

    def _remove_hooks(self, hooks: list[Any]) -> None:
        for hook in hooks:
            hook.remove()
        self._hooks = [hook for hook in self._hooks if hook not in hooks]
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def _is_capturing(self) -> bool:
        """Whether the step is being captured into a CUDA graph, in which nothing may wait."""
        cuda = self._torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    # The course of a recording: every `yield` lets one step pass

    def _record_script(self) -> Course:
        self._stage = "waiting for steady steps"
        steady = yield from self._warm_up()
        if self._boundary not in self._counts and self._has(self._torch.optim.Optimizer):
            while time.perf_counter_ns() - self._first_ns < PATIENCE_NS:
                yield
        if self._has(self._torch.profiler.profile):
            raise RuntimeError("the script uses torch.profiler itself: explain the trace that it writes")
        if not self._claim():
            return
        # Of several optimizers the one that steps least often: a GAN's critic steps several times for one step.
        candidates = {key: count for key, count in self._counts.items() if count > 1}
        if candidates and (rarest := min(candidates, key=lambda key: candidates[key])) != self._boundary:
            self._boundary = rarest
            yield
        self._stage = "timing steps without the profiler"
        warmup, kind = self._seen_steps(), self._device()
        gross_ns, timed = yield from self._gross()
        profiled: dict[str, Any] = {"shapes": True}
        if kind != "cpu":
            profiled["host_ns"] = yield from self._host_time()
        wanted = min(max(-int(-WANTED_NS // gross_ns), FEWEST_STEPS), MOST_STEPS)
        steps = self._settings.get("steps") or wanted
        live = {"pid": self._pid, "steps_end": self._label, "warmup": warmup, "steady": steady, "timed": timed}
        marks = {"tare_profiled": profiled, "tare_recorded": {"gross_ns": gross_ns}, "tare_live": live}
        self._stage = "recording"
        for stacks in (False, True) if self._settings.get("stacks", True) else (False,):
            # The profiler's tracer would take the place of another one.
            if not stacks or sys.getprofile() is None:
                yield from self._record(stacks, kind, steps, marks)
        self._stage = "recorded"
        say(self._folder, "done")

    def _seen_steps(self) -> int:
        return max(self._counts.get(self._boundary, 0), self._seen["forward"])

    def _warm_up(self) -> Course:
        before = 0.0
        for _ in range(MOST_WARM_BLOCKS):
            now, _ = yield from self._block()
            if before and abs(now - before) <= STEADY * before:
                return True
            before = now
        return False

    def _block(self, synchronize: Callable[[], None] = lambda: None) -> Course:
        """Lets a block of steps pass: the nanoseconds of a step, and how many there were."""
        synchronize()
        began, steps, passed = time.perf_counter_ns(), 0, 0
        while (passed < BLOCK_NS or steps < BLOCK_STEPS) and passed < MOST_NS:
            yield
            steps += 1
            passed = time.perf_counter_ns() - began
        synchronize()
        return (time.perf_counter_ns() - began) / steps, steps

    def _has(self, kind: type) -> bool:
        """Whether the script has made an object of this class. Its own type is asked: proxies pretend."""
        return any(issubclass(type(each), kind) for each in gc.get_objects())

    def _claim(self) -> bool:
        """Whether this process is the first one with steady steps."""
        try:
            os.close(os.open(self._folder / CLAIM, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        self._claimed = True
        say(self._folder, "claimed")
        return True

    def _gross(self) -> Course:
        blocks = []
        for _ in range(GROSS_BLOCKS):
            blocks.append((yield from self._block(self._synchronize)))
        return round(median(step for step, _ in blocks)), sum(steps for _, steps in blocks)

    def _host_time(self) -> Course:
        """What launching a step takes where the device is idle."""
        taken = []
        for _ in range(HOST_STEPS):
            self._synchronize()
            began = time.perf_counter_ns()
            yield
            taken.append(time.perf_counter_ns() - began)
        return round(median(taken))

    def _record(self, stacks: bool, kind: str, steps: int, marks: dict[str, dict[str, Any]]) -> Course:
        from torch.profiler import ProfilerActivity, profile, schedule

        activities = [ProfilerActivity.CPU]
        if hasattr(ProfilerActivity, kind.upper()) and kind != "cpu":
            activities.append(getattr(ProfilerActivity, kind.upper()))
        profiler = profile(
            activities=activities, schedule=schedule(wait=0, warmup=PROFILER_WARMUP, active=steps, repeat=1),
            record_shapes=True, profile_memory=True, with_stack=stacks,
        )  # fmt: skip
        with warnings.catch_warnings():
            # torch recommends what a recording of one cycle does not need.
            warnings.filterwarnings("ignore", message=".*Profiler clears events")
            profiler.start()
        began = done = 0
        lines = _line_marks() if stacks else None
        try:
            for i in range(PROFILER_WARMUP + steps):
                yield
                if i >= PROFILER_WARMUP:
                    done += 1
                if i in (PROFILER_WARMUP - 1, PROFILER_WARMUP + steps - 1):
                    self._synchronize()
                if lines is not None and done == steps:
                    lines.end()
                if done == steps:
                    self._mark(profiler, stacks, done, began, marks)
                profiler.step()
                if i == PROFILER_WARMUP - 1:
                    began = time.perf_counter_ns()
                    if lines is not None:
                        lines.begin()
        except GeneratorExit:
            if lines is not None:
                lines.end()
            # The script ends within the recorded steps: the whole ones are kept.
            if not done:
                profiler.stop()
                raise
            self._mark(profiler, stacks, done, began, marks)
            profiler.stop()
            self._export(profiler, stacks)
            raise
        profiler.stop()
        self._export(profiler, stacks)

    def _mark(self, profiler: Any, stacks: bool, done: int, began: int, marks: dict[str, dict[str, Any]]) -> None:
        """Writes into the trace what is known about it."""
        profiled = {**marks["tare_profiled"], "stacks": stacks}
        live = {**marks["tare_live"], "steps": done, "profiled_ns": (time.perf_counter_ns() - began) // done}
        for name, content in {**marks, "tare_profiled": profiled, "tare_live": live}.items():
            profiler.add_metadata_json(name, json.dumps(content))

    def _export(self, profiler: Any, stacks: bool) -> None:
        path = self._folder / TRACES[stacks]
        partial = path.with_name(f"partial-{path.name}")
        profiler.export_chrome_trace(str(partial))
        partial.replace(path)
        say(self._folder, "trace", stacks=stacks)

    # Devices

    def _device(self) -> str:
        for kind in ("cuda", "xpu"):
            module = getattr(self._torch, kind, None)
            if module is not None and module.is_available() and module.is_initialized():
                return kind
        return "mps" if self._torch.backends.mps.is_available() else "cpu"

    def _synchronize(self) -> None:
        kind = self._device()
        if kind != "cpu":
            getattr(self._torch, kind).synchronize()

    # Ends

    def _after_fork(self) -> None:
        """A child that is forked may be the one that trains. What was recorded is its parent's."""
        self._remove_hooks(self._hooks)
        if not (self._folder / CLAIM).exists():
            self._begin()

    def _at_exit(self) -> None:
        try:
            if self._course is not None:
                self._course.close()
            say(self._folder, "ended", stage=self._stage, **self._seen)
        except Exception as error:  # noqa: BLE001
            say(self._folder, "failed", why=_one_line(error))


def _line_marks() -> Any:
    """The file beside this one, wherever both are."""
    spec = importlib.util.spec_from_file_location("_tare_line_marks", Path(__file__).with_name("line_marks.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LineMarks()


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
