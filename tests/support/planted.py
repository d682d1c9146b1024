"""Workloads and rungs with planted faults: crashes, hangs, leaks, wrong results. TARE_PLUGINS loads them into
workers and into every command; torch, which takes two seconds to import, is imported by the workers only."""

import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.cases.case import Case
from tare.rungs.base import Program, Rung
from tare.rungs.registry import rung
from tare.workloads.base import Batch, Workload
from tare.workloads.registry import workload

HOG_CHUNK = 64 * 2**20


def _plant(name: str, fault: Callable[[int, Any], Any]) -> None:
    groups = ("faulty",) if name == "raise" else ()

    @workload(f"planted_{name}", domain="other", task="fault", source="tests", batch=4, groups=groups)
    class Planted:
        def build(self) -> Any:
            from planted_modules import FaultyLayer

            return FaultyLayer(fault)

        def inputs(self, batch: int) -> Batch:
            import torch

            return Batch((torch.randn(batch, 16),))


def _segfault(_: int, y: Any) -> Any:
    ctypes.string_at(0)
    return y


def _hang(_: int, y: Any) -> Any:
    time.sleep(3600)
    return y


def _hog(_: int, y: Any) -> Any:
    kept = []
    for _chunk in itertools.count():
        kept.append(bytearray(os.urandom(4096)) * (HOG_CHUNK // 4096))
        time.sleep(0.01)
    return y


def _flood(call: int, y: Any) -> Any:
    if call == 1:
        line = b"x" * 1023 + b"\n"
        for _ in range(1024):
            os.write(1, line * 1024)
    return y


def _raise(*_: Any) -> Any:
    raise ValueError("a planted mistake\nwith a second line")


def _repeat_secrets(*_: Any) -> Any:
    names = ("HF_TOKEN", "TORCH_MIRROR", "SIDE_TOKEN", "OTHER")
    print(dict(os.environ), flush=True)
    raise ValueError(f"loads with {' '.join(os.environ.get(name, 'nothing') for name in names)}")


def _ask_too_much(_: int, y: Any) -> Any:
    import torch

    return y + torch.empty(1 << 50).sum()


def _device_memory(*_: Any) -> Any:
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 TiB.")


def _device_memory_from_16(_: int, y: Any) -> Any:
    import torch

    if y.shape[0] >= 16:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB.")
    return y


def _host_memory_by_batch(_: int, y: Any) -> Any:
    """A step of constant length that holds 128 MiB for each item of the batch for a while."""
    held = [bytearray(os.urandom(4096)) * (2 * HOG_CHUNK // 4096) for _ in range(y.shape[0])]
    time.sleep(0.25)
    del held
    return y


def _leave(*_: Any) -> Any:
    os._exit(0)


def _abort(*_: Any) -> Any:
    os.abort()


def _nan_later(call: int, y: Any) -> Any:
    return y if call < 20 else y * float("nan")


def _busy(call: int, y: Any) -> Any:
    """Computes during preparation, as a compiler does, and writes down when."""
    end = time.monotonic() + 0.5 * y.shape[0]
    with Path(os.environ["PLANTED_NOTES"], f"busy-{y.shape[0]}").open("a") as notes:
        while call == 1 and time.monotonic() < end:
            notes.write(f"{time.perf_counter_ns()}\n")
            notes.flush()
            time.sleep(0.001)
    return y


def _crowded(_: int, y: Any) -> Any:
    """Runs out of memory the first time only."""
    import torch

    been = Path(os.environ["PLANTED_NOTES"], "crowded")
    if not been.exists():
        been.touch()
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB.")
    return y


def _hang_after_a_trace(_: int, y: Any) -> Any:
    """The first time that it is profiled after another case's trace was kept; it writes down that it hangs."""
    import torch

    home, hangs = Path(os.environ["TARE_HOME"]), Path(os.environ["TARE_HOME"], "hangs")
    kept = home.glob("traces/[!p]*.json.gz")
    if torch.autograd._profiler_enabled() and any(kept) and not hangs.exists():
        hangs.touch()
        time.sleep(3600)
    return y


for _name, _fault in {
    "segfault": _segfault,
    "abort": _abort,
    "hang": _hang,
    "hang_after_a_trace": _hang_after_a_trace,
    "hog": _hog,
    "flood": _flood,
    "raise": _raise,
    "greedy": _ask_too_much,
    "device_memory": _device_memory,
    "leave": _leave,
    "nan": _nan_later,
    "batch_device": _device_memory_from_16,
    "batch_host": _host_memory_by_batch,
    "busy": _busy,
    "crowded": _crowded,
}.items():
    _plant(_name, _fault)


@workload(
    "planted_tiny",
    domain="other",
    task="regression",
    source="tests",
    batch=4,
    sizes={"width": 32},
    smoke={"width": 2},
    groups=("tiny",),
)
class Tiny:
    """One layer that does nothing wrong."""

    def build(self, width: int) -> Any:
        import torch

        return torch.nn.Linear(width, width)

    def inputs(self, batch: int, width: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, width),), torch.randn(batch, width))

    def loss(self, output: Any, target: Any) -> Any:
        import torch

        return torch.nn.functional.mse_loss(output, target)


@rung
class Offset(Rung):
    """Half a percent wrong."""

    name = "planted_offset"
    summary = "eager, but wrong"
    not_by_default = {"": "planted"}

    def prepare(self, workload: Workload, case: Case) -> Program:
        from tare.rungs.torch.program import TorchProgram

        program = TorchProgram(workload, case)
        right = program.step
        program.step = lambda: right() * 1.005
        return program


@rung
class Unsynchronised(Rung):
    """Runs the step in a thread and returns at once, so that the clock does not see the step."""

    name = "planted_async"
    summary = "eager, but not waited for"
    not_by_default = {"": "planted"}

    def prepare(self, workload: Workload, case: Case) -> Program:
        import torch

        from tare.rungs.torch.program import TorchProgram

        program = TorchProgram(workload, case)
        right, look = program.step, program.has_nan

        def work(box: list[Any]) -> None:
            # Far longer than a block of steps, even on a busy machine.
            time.sleep(0.05)
            with torch.inference_mode():
                box.append(right())

        def step() -> Any:
            box: list[Any] = []
            thread = threading.Thread(target=work, args=(box,))
            thread.start()
            return thread, box

        def wait_and_look(result: Any) -> bool:
            result[0].join()
            return look(result[1][0])

        program.step = step
        program.has_nan = wait_and_look  # type: ignore[method-assign]
        return program


# Forward passes of known length and with known faults, for tests of `tare check`.
_leaked: list[bytearray] = []


def _sleep() -> None:
    """Sleeps for PLANTED_MS: a busy machine changes that little."""
    time.sleep(float(os.environ.get("PLANTED_MS", "2")) / 1000)


def _wait(_: int, y: Any) -> Any:
    """Does the superfluous work that PLANTED_EXTRA names."""
    return _more(os.environ.get("PLANTED_EXTRA"), y)


def _more(extra: str | None, y: Any) -> Any:
    _sleep()
    if extra == "copy":
        y = y.clone()
    if extra == "synchronisation":
        y = y * float(y.sum().item() < 1e30)
    return y


def _when_asked(extra: str) -> Callable[[int, Any], Any]:
    """Does this extra work whenever PLANTED_EXTRA is set, so that one check can cover several kinds."""
    return lambda _, y: _more(extra if os.environ.get("PLANTED_EXTRA") else None, y)


def _leak(_: int, y: Any) -> Any:
    """Keeps PLANTED_LEAK bytes a call, all written to, and sleeps."""
    size = int(os.environ.get("PLANTED_LEAK", "0"))
    if size:
        _leaked.append(bytearray(os.urandom(64)) * (size // 64))
    _sleep()
    return y


_plant("wait", _wait)
_plant("secrets", _repeat_secrets)
_plant("copy", _when_asked("copy"))
_plant("synchronisation", _when_asked("synchronisation"))
_plant("leak", _leak)


def _operate(_: int, y: Any) -> Any:
    from planted_modules import steady, work

    return work(steady(y))


_plant("operator", _operate)
